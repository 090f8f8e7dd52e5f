# An exported panel in R:
#   stream-dp export sqlite:work-public.db patterns panel.parquet
#   Rscript read_export.R panel.parquet
path <- commandArgs(trailingOnly = TRUE)[1]
panel <- if (requireNamespace("nanoparquet", quietly = TRUE)) {
  as.data.frame(nanoparquet::read_parquet(path))
} else if (requireNamespace("arrow", quietly = TRUE)) {
  as.data.frame(arrow::read_parquet(path))
} else {
  stop("install.packages(\"nanoparquet\") first")
}
cat(nrow(panel), "artificial people,", ncol(panel) - 1, "periods\n")
last <- names(panel)[ncol(panel)]
print(table(panel[[last]]))
