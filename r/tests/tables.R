# Tables are data frames with factors; a damaged export is refused in one line.
library(streamdp)

folder <- Sys.getenv("STREAMDP_EXPORTS")
if (folder == "") quit()

refusal <- function(expression) tryCatch(expression, error = conditionMessage)
refused <- function(expression, words) {
  said <- refusal(expression)
  if (!is.character(said) || length(said) != 1 || !grepl(words, said, fixed = TRUE)) {
    stop("not refused with '", words, "': ", said)
  }
}

x <- read_export(file.path(folder, "quarters"))
people <- panel(x)
stopifnot(
  identical(names(people), c("row", sprintf("2021-%02d", 1:5))),
  nrow(people) == nrow(unique(people["row"])),
  all(vapply(people[-1], function(column) identical(levels(column), c("0", "1")), NA)),
  !anyNA(people), is.numeric(release_table(x, "measurements")$value)
)
said <- capture.output(print(x))
stopifnot(
  startsWith(said[1], "Poverty, simulated: quarters"), grepl("release quarters", said[1]),
  any(grepl("one household (replace_one)", said, fixed = TRUE)),
  any(grepl("^Simulation: ", said))
)
stopifnot(any(grepl("^guarantee: .*zCDP", capture.output(print(summary(x))))))

all <- estimates(x)
stopifnot(
  identical(levels(all$period), sprintf("2021-%02d", 1:5)),
  isTRUE(all.equal(estimates(x, measure = "count")$value, 200 * all$value)),
  inherits(all[all$period == "2021-04", ], "streamdp_estimates")
)
refused(estimates(x, "pattern 7"), "query 'pattern 7': not among the estimates of 'quarters'")
refused(release_table(x, "people"), "release 'quarters' has panel, measurements, estimates")
refused(difference(all, 1, 99999), "name two rows")
refused(combined(all, 1), "finite numbers, one for each estimate")
both <- rbind(estimates(x, "pattern 0"), estimates(x, "pattern 1"))
refused(difference(both, 1, nrow(both)), "ask for all queries in one call")
unknown <- x
unknown$tables$covariance <- NULL
refused(difference(estimates(unknown), 1, 2), "no covariance of '2021-01 ")

sizes <- read_export(file.path(folder, "sizes"))
refused(panel(sizes), "has sizes, measurements")
refused(estimates(sizes), "table 'series'")

# Codes of a column of numbers are no numbers.
coded <- tempfile()
dir.create(coded)
writeLines(c("hours,pay", "40,-9", "-9,7", ",-8"), file.path(coded, "people.csv"))
fields <- list(
  list(name = "hours", type = "integer", missingValues = list("", "-9", "-8")),
  list(name = "pay", type = "integer")
)
numbers <- streamdp:::read_table(coded, list(path = "people.csv", schema = list(fields = fields)))
stopifnot(identical(numbers$hours, c(40, NA, NA)), identical(numbers$pay, c(-9, 7, -8)))

# Every file is checked: its bytes, its presence, its name, its form.
damaged <- function(change, words) {
  copy <- file.path(tempfile(), "quarters")
  dir.create(dirname(copy))
  file.copy(file.path(folder, "quarters"), dirname(copy), recursive = TRUE)
  change(copy)
  refused(read_export(copy), words)
}
edited <- function(from, to) function(copy) {
  path <- file.path(copy, "datapackage.json")
  text <- readChar(path, file.size(path), useBytes = TRUE)
  stopifnot(grepl(from, text, fixed = TRUE))
  writeLines(gsub(from, to, text, fixed = TRUE), path)
}
for (name in names(x$tables)) {
  file <- paste0(name, ".csv")
  damaged(function(copy) unlink(file.path(copy, file)), paste0(file, ": missing"))
  damaged(function(copy) {
    cat("1\n", file = file.path(copy, file), append = TRUE)
  }, paste0(file, ": damaged: its SHA-256"))
}
damaged(function(copy) unlink(file.path(copy, "datapackage.json")), "no datapackage.json in it")
damaged(function(copy) writeLines("{", file.path(copy, "datapackage.json")), "json: damaged")
damaged(function(copy) writeLines("[1]", file.path(copy, "datapackage.json")), "json: damaged")
damaged(edited("panel.csv", "../panel.csv"), "json: damaged")
damaged(edited("sha256:", "md5:"), "panel.csv: damaged: its SHA-256")
damaged(edited("\"csv\"", "\"parquet\""), "panel.csv: not a CSV file")
damaged(edited("\"2021-04\"", "\"2021-05\""), "its columns are not those of datapackage.json")
