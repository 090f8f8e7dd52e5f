# Estimates over time with bands of three levels.

LEVELS <- c(0.95, 0.8, 0.5)
COLOURS <- c("#cfe6e3", "#93c6bf", "#4d9c93")

globalVariables(c("period", "value", "low", "high", "level"))

fan <- function(x, query, measure = c("share", "count")) {
  measure <- match.arg(measure)
  if (!requireNamespace("ggplot2", quietly = TRUE)) {
    refuse("fan: ggplot2 is not installed: apt-get install r-cran-ggplot2")
  }
  if (!is_text(query)) refuse("fan: name one query")
  points <- as.data.frame(estimates(x, query, measure))
  if (nrow(points) < 2) refuse("fan: '", query, "' is of one period; see estimates()")
  people <- unique(points$people)
  whom <- if (measure == "share" && length(people) == 1) paste("of", people)
  percent <- function(values) paste(format(100 * values, trim = TRUE), "%")
  ggplot2::ggplot(points, ggplot2::aes(period, value)) +
    ggplot2::geom_ribbon(
      ggplot2::aes(ymin = low, ymax = high, fill = level, group = level),
      data = fan_bands(points)
    ) +
    ggplot2::geom_line(group = 1) +
    ggplot2::geom_point() +
    ggplot2::scale_fill_manual("interval", values = COLOURS) +
    ggplot2::scale_x_discrete(guide = ggplot2::guide_axis(check.overlap = TRUE)) +
    ggplot2::scale_y_continuous(labels = if (measure == "share") percent else ggplot2::waiver()) +
    ggplot2::labs(
      x = NULL, y = paste(c(measure, whom), collapse = " "), title = query,
      caption = noise_words(x)
    )
}

# The interval of 95 %, shrunk towards the value in the ratio of the normal quantiles: exact for
# linear answers, and of first order for ratios.
fan_bands <- function(points) {
  names <- paste(100 * LEVELS, "%")
  bands <- lapply(seq_along(LEVELS), function(i) {
    factor <- qnorm((1 + LEVELS[i]) / 2) / qnorm(0.975)
    data.frame(
      period = points$period,
      value = points$value,
      low = points$value - factor * (points$value - points$low),
      high = points$value + factor * (points$high - points$value),
      level = base::factor(names[i], names)
    )
  })
  do.call(rbind, bands)
}
