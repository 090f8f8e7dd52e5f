# What an export says about itself.

# A text of a public log on one line.
one_line <- function(...) gsub("[[:cntrl:]]+", " ", paste0(...))

noise_words <- function(x) {
  if (isTRUE(x$privacy$simulated)) {
    "Simulation: the noise came from a seed, so nobody is protected"
  } else {
    "Intervals are of the privacy noise alone"
  }
}

print.streamdp_export <- function(x, ...) {
  sizes <- vapply(x$tables, nrow, 0L)
  privacy <- x$privacy
  lines <- c(
    one_line(x$title, ", release ", x$release),
    paste0("tables: ", paste(names(sizes), "of", sizes, "rows", collapse = ", ")),
    one_line(
      "privacy: one ", privacy$unit, " (", privacy$relation, "), epsilon ", privacy$epsilon,
      " so far and ", privacy$epsilon_total, " in the end, delta ", privacy$delta
    ),
    noise_words(x)
  )
  cat(lines, sep = "\n")
  invisible(x)
}

summary.streamdp_export <- function(object, ...) {
  structure(list(export = object), class = "summary.streamdp_export")
}

print.summary.streamdp_export <- function(x, ...) {
  export <- x$export
  privacy <- export$privacy
  print(export)
  lines <- c(
    one_line("guarantee: ", privacy$guarantee),
    one_line("mechanism: ", paste(unlist(privacy$mechanisms), collapse = "; ")),
    one_line("published exactly, not protected: ", privacy$invariants),
    one_line("not protected: ", paste(unlist(privacy$not_protected), collapse = "; ")),
    one_line("cite: ", export$citation)
  )
  cat(lines, sep = "\n")
  invisible(x)
}
