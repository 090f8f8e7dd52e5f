# Reads the folder that `stream-dp export PUBLIC RELEASE FOLDER --format csv` writes.

DESCRIPTION_FILE <- "datapackage.json"

refuse <- function(...) stop(..., call. = FALSE)

read_export <- function(folder) {
  description <- read_description(folder)
  names <- vapply(description$resources, file_name, "")
  for (resource in description$resources) check_file(folder, resource)
  tables <- lapply(description$resources, function(resource) read_table(folder, resource))
  names(tables) <- sub("\\.csv$", "", names)
  structure(
    list(
      release = sub("^Release (.*): [a-z]+$", "\\1", description$resources[[1]]$title),
      title = description$title,
      citation = description$citation,
      head = tables$series$HEAD[1],
      privacy = description$privacy,
      tables = tables
    ),
    class = "streamdp_export"
  )
}

# The parsed description of the files. Refuses anything that is not one.
read_description <- function(folder) {
  path <- file.path(folder, DESCRIPTION_FILE)
  if (!file.exists(path)) {
    refuse(
      folder, ": no ", DESCRIPTION_FILE, " in it; name a folder that ",
      "'stream-dp export PUBLIC RELEASE FOLDER --format csv' wrote"
    )
  }
  description <- tryCatch(
    jsonlite::fromJSON(path, simplifyVector = FALSE),
    error = function(error) NULL
  )
  described <- is.list(description) && length(description$resources) > 0 &&
    is.list(description$resources) && is.list(description$privacy) &&
    all(vapply(description$resources, is_described, NA))
  if (!described) refuse(path, ": damaged; export the release again")
  description
}

is_text <- function(value) is.character(value) && length(value) == 1

# Whether a file is described by its name, which leads to no other folder, and its columns.
is_described <- function(resource) {
  is.list(resource) && is_text(resource$path) && is_text(resource$title) &&
    !grepl("[/\\\\]", resource$path) &&
    all(vapply(resource$schema$fields, function(field) is_text(field$name), NA))
}

file_name <- function(resource) resource$path

# Refuses a file that is not CSV, or has other bytes than its description says.
check_file <- function(folder, resource) {
  path <- file.path(folder, resource$path)
  if (!identical(resource$format, "csv")) {
    refuse(path, ": not a CSV file; export the release with --format csv")
  }
  if (!file.exists(path)) refuse(path, ": missing; export the release again")
  hash <- paste0("sha256:", digest::digest(file = path, algo = "sha256"))
  if (!identical(resource$hash, hash)) {
    refuse(
      path, ": damaged: its SHA-256 is not the one in ", DESCRIPTION_FILE,
      "; export the release again"
    )
  }
}

# A table as a data frame: columns with listed values are factors, numbers are numeric. The codes
# of a column of numbers that are no numbers, such as -9, are NA.
read_table <- function(folder, resource) {
  fields <- resource$schema$fields
  types <- vapply(fields, column_class, "")
  table <- read.csv(
    file.path(folder, resource$path),
    colClasses = types, na.strings = "", check.names = FALSE, encoding = "UTF-8"
  )
  if (!identical(names(table), vapply(fields, function(field) field$name, ""))) {
    refuse(file.path(folder, resource$path), ": its columns are not those of ", DESCRIPTION_FILE)
  }
  for (column in seq_along(fields)) {
    codes <- setdiff(unlist(fields[[column]]$missingValues), "")
    table[[column]][table[[column]] %in% as.numeric(codes)] <- NA
    listed <- fields[[column]]$constraints$enum
    if (!is.null(listed)) {
      table[[column]] <- factor(table[[column]], vapply(listed, as.character, ""))
    }
  }
  table
}

column_class <- function(field) {
  is_number <- field$type %in% c("integer", "number") && is.null(field$constraints$enum)
  if (is_number) "numeric" else "character"
}

release_table <- function(x, table) {
  if (!table %in% names(x$tables)) {
    refuse(
      "table '", table, "': release '", x$release, "' has ",
      paste(names(x$tables), collapse = ", ")
    )
  }
  x$tables[[table]]
}

panel <- function(x) release_table(x, "panel")
