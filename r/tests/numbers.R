# Estimates, differences, combinations and bands equal those of PublicLog.answers.
library(streamdp)

folder <- Sys.getenv("STREAMDP_EXPORTS")
if (folder == "") quit() # the exports are made by tests/r of the project

is_near <- function(mine, theirs) {
  stopifnot(length(mine) == length(theirs), all(abs(mine - theirs) < 1e-9))
}

compared <- 0
for (path in list.files(folder, "[.]json$", full.names = TRUE)) {
  x <- read_export(sub("[.]json$", "", path))
  for (asked in jsonlite::fromJSON(path, simplifyVector = FALSE)) {
    joint <- estimates(x, unique(unlist(asked$query)), asked$measure)
    order <- match(
      paste(unlist(asked$query), unlist(asked$period)),
      paste(joint$query, joint$period)
    )
    joint <- joint[order, ]
    is_near(joint$value, unlist(asked$value))
    is_near(joint$standard_error, unlist(asked$standard_error))
    is_near(joint$low, vapply(asked$interval, function(ends) ends[[1]], 0))
    is_near(joint$high, vapply(asked$interval, function(ends) ends[[2]], 0))
    is_near(vcov(joint), unlist(asked$covariance))
    n <- nrow(joint)
    change <- difference(joint, n, 1)
    is_near(unlist(change), unlist(asked$difference))
    weights <- matrix(unlist(asked$weights), 2, byrow = TRUE)
    is_near(unlist(combined(joint, weights)), unlist(asked$combined))
    stopifnot(identical(combined(joint, weights[1, ]), combined(joint, weights)[1, ]))
    is_near(unlist(difference(joint, n, n)), rep(0, 4))
    compared <- compared + n
  }
}
cat(compared, "answers compared\n")
