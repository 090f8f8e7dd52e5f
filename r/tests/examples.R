# The examples of the help pages run as they are printed, and the fan has its bands.
library(streamdp)

folder <- Sys.getenv("STREAMDP_EXPORTS")
if (folder == "") quit()

work <- tempfile()
dir.create(work)
file.copy(file.path(folder, "quarters"), work, recursive = TRUE)
file.rename(file.path(work, "quarters"), file.path(work, "out"))
setwd(work)
pages <- tools::Rd_db("streamdp")
stopifnot(length(pages) == 3)
has_ggplot2 <- requireNamespace("ggplot2", quietly = TRUE)
for (page in names(pages)) {
  if (page == "fan.Rd" && !has_ggplot2) next
  script <- paste0(page, ".R")
  tools::Rd2ex(pages[[page]], script, commentDontrun = FALSE)
  source(script, local = new.env(), print.eval = page != "fan.Rd")
}

if (has_ggplot2) {
  x <- read_export("out")
  chart <- fan(x, "pattern 1")
  bands <- ggplot2::layer_data(chart, 1)
  poor <- estimates(x, "pattern 1")
  outer <- bands[bands$group == 1, ]
  inner <- bands[bands$group == 3, ]
  stopifnot(
    nrow(bands) == 3 * nrow(poor),
    all(abs(outer$ymin - poor$low) < 1e-9), all(abs(outer$ymax - poor$high) < 1e-9),
    all(abs(inner$ymax - poor$value - qnorm(0.75) * poor$standard_error) < 1e-9),
    identical(ggplot2::layer_data(chart, 2)$y, poor$value)
  )
  grDevices::pdf(NULL)
  print(chart)
  several <- tryCatch(fan(x, c("pattern 0", "pattern 1")), error = conditionMessage)
  stopifnot(several == "fan: name one query")
}
