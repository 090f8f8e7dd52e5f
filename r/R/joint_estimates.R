# Estimates with the covariance of their privacy noise.

estimates <- function(x, query = NULL, measure = c("share", "count")) {
  measure <- match.arg(measure)
  series <- release_table(x, "series")
  is_asked <- series$MEASURE == measure
  if (!any(is_asked)) {
    refuse(measure, ": release '", x$release, "' has no such estimates; ask for the other measure")
  }
  unknown <- setdiff(query, series$QUERY[is_asked])
  if (length(unknown) > 0) {
    refuse(
      "query '", unknown[1], "': not among the estimates of '", x$release,
      "'; see unique(estimates(x)$query)"
    )
  }
  if (!is.null(query)) is_asked <- is_asked & series$QUERY %in% query
  rows <- which(is_asked)
  periods <- series[[intersect(c("TIME_PERIOD", "STEP"), names(series))]]
  answers <- data.frame(
    period = factor(periods[rows], unique(periods)),
    query = series$QUERY[rows],
    measure = measure,
    people = series$PEOPLE[rows],
    value = series$OBS_VALUE[rows],
    standard_error = series$STANDARD_ERROR[rows],
    low = series$LOW[rows],
    high = series$HIGH[rows],
    unbiased = series$UNBIASED[rows]
  )
  attr(answers, "covariance") <- covariance_of(x$tables$covariance, rows, answer_keys(answers))
  class(answers) <- c("streamdp_estimates", class(answers))
  answers
}

# What identifies an answer within a release.
answer_keys <- function(answers) paste(answers$measure, answers$period, answers$query)

# The covariance matrix of rows of the series; NA where the export has none.
covariance_of <- function(covariance, rows, keys) {
  known <- matrix(NA_real_, length(rows), length(rows), dimnames = list(keys, keys))
  pairs <- cbind(match(covariance$first, rows), match(covariance$second, rows))
  is_asked <- !is.na(rowSums(pairs))
  pairs <- pairs[is_asked, , drop = FALSE]
  known[pairs] <- known[pairs[, 2:1, drop = FALSE]] <- covariance$covariance[is_asked]
  known
}

`[.streamdp_estimates` <- function(x, ...) {
  part <- NextMethod()
  if (is.data.frame(part)) attr(part, "covariance") <- attr(x, "covariance")
  part
}

vcov.streamdp_estimates <- function(object, ...) {
  covariance <- attr(object, "covariance")
  positions <- match(answer_keys(object), rownames(covariance))
  names <- paste(object$period, object$query)
  matrix(
    covariance[positions, positions],
    length(positions), length(positions),
    dimnames = list(names, names)
  )
}

combined <- function(x, weights) {
  if (!is.matrix(weights)) weights <- matrix(weights, 1)
  if (!is.numeric(weights) || ncol(weights) != nrow(x) || !all(is.finite(weights))) {
    refuse("weights: give ", nrow(x), " finite numbers, one for each estimate")
  }
  used <- colSums(weights != 0) > 0
  covariance <- vcov(x)[used, used, drop = FALSE]
  if (anyNA(covariance)) {
    unknown <- rownames(covariance)[is.na(diag(covariance))]
    refuse(
      "no covariance of '", c(unknown, rownames(covariance))[1],
      "' with the others: ask for all queries in one call of estimates(), or ask ",
      "'stream-dp estimate'"
    )
  }
  weights_used <- weights[, used, drop = FALSE]
  # The covariances are those of unbiased estimates.
  unbiased <- ifelse(is.na(x$unbiased), x$value, x$unbiased)
  value <- drop(weights_used %*% unbiased[used])
  error <- sqrt(pmax(0, diag(weights_used %*% covariance %*% t(weights_used))))
  reach <- qnorm(0.975) * error
  data.frame(
    value = value, standard_error = error, low = value - reach, high = value + reach,
    row.names = rownames(weights)
  )
}

difference <- function(x, a, b) {
  for (row in list(a, b)) {
    if (!is.numeric(row) || length(row) != 1 || !row %in% seq_len(nrow(x))) {
      refuse("difference: name two rows of the estimates, from 1 to ", nrow(x))
    }
  }
  weights <- matrix(0, 1, nrow(x))
  weights[a] <- weights[a] + 1
  weights[b] <- weights[b] - 1
  names <- paste(x$period, x$query)
  rownames(weights) <- paste(names[a], "-", names[b])
  combined(x, weights)
}
