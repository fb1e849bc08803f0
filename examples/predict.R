# Predict with a release in base R: no package is needed.
#   Rscript predict.R release/model.json table.csv > predictions.csv
#   Rscript predict.R release/model.json              compares with the answers that the file holds
# It is the program of a release's README, line by line; sums run from left to right.

# --- JSON: arrays are lists, objects named lists, null is NULL ---
read_json <- function(path) {
  text <- paste(readLines(path, warn = FALSE, encoding = "UTF-8"), collapse = "\n")
  token <- '"(?:[^"\\\\]|\\\\.)*"|-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|[][{}:,]'
  words <- regmatches(text, gregexpr(token, text, perl = TRUE))[[1]]
  at <- 0
  take <- function() { at <<- at + 1; words[at] }
  string <- function(word) {
    word <- substr(word, 2, nchar(word) - 1)
    if (!grepl("\\", word, fixed = TRUE)) return(word)
    found <- regmatches(word, gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+", word, perl = TRUE))[[1]]
    plain <- c("\\n" = "\n", "\\t" = "\t", "\\r" = "\r", "\\b" = "\b", "\\f" = "\f")
    paste(vapply(found, function(part) {
      if (part %in% names(plain)) return(plain[[part]])
      if (startsWith(part, "\\u")) return(intToUtf8(strtoi(substr(part, 3, 6), 16L)))
      if (startsWith(part, "\\")) substr(part, 2, 2) else part
    }, ""), collapse = "")
  }
  value <- function(word = take()) {
    if (word == "[" || word == "{") {
      whole <- list()
      close <- if (word == "[") "]" else "}"
      while ((first <- take()) != close) {
        if (first == ",") first <- take()
        if (word == "[") whole[length(whole) + 1] <- list(value(first))
        else { take(); whole[string(first)] <- list(value()) }
      }
      return(whole)
    }
    if (startsWith(word, "\"")) return(string(word))
    switch(word, true = TRUE, false = FALSE, null = NULL, as.numeric(word))
  }
  value()
}
numbers <- function(given) as.numeric(unlist(given))

# --- a raw row: what a cell means, and its coordinates ---
DECIMAL <- "^[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?$"
meaning <- function(given, missing) {
  if (is.null(given) || is.na(given)) return(NULL)
  if (is.numeric(given) || is.logical(given)) return(as.numeric(given))
  text <- trimws(given, whitespace = "[\\h\\v]")
  if (text %in% missing) return(NULL)
  if (grepl(DECIMAL, text) || grepl("^0[xX][0-9a-fA-F]{1,16}$", text)) return(as.numeric(text))
  lower <- tolower(text)
  if (grepl("^[+-]?nan$", lower)) return(NULL)
  if (grepl("^[+-]?inf(inity)?$", lower)) return(if (startsWith(lower, "-")) -Inf else Inf)
  switch(lower, true = 1, false = 0, text)
}
moment <- function(given, unit, since) {
  parts <- if (!is.character(given)) character() else regmatches(given, regexec(
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2}(?:\\.[0-9]+)?))?)?(Z|[+-][0-9]{2}:[0-9]{2})?$",
    given, perl = TRUE))[[1]]
  if (length(parts) == 0) return(paste("no date:", given))
  clock <- c(numbers(parts[3:5]), 0)
  clock[is.na(clock)] <- 0
  seconds <- as.numeric(as.Date(parts[2])) * 86400 + clock[1] * 3600 + clock[2] * 60 + clock[3]
  if (!parts[6] %in% c("", "Z")) {
    away <- numbers(strsplit(substring(parts[6], 2), ":")[[1]])
    seconds <- seconds - (if (startsWith(parts[6], "-")) -1 else 1) * (away[1] * 3600 + away[2] * 60)
  }
  (seconds * 1e6 - since) / unit
}
cell <- function(column, given, missing) {
  u <- meaning(given, missing)
  if (column$kind == "number") {
    gone <- lapply(column$na, meaning, missing)
    if (!is.null(u) && !is.null(column$dates)) {
      unit <- column$dates[[1]]; since <- column$dates[[2]]
      u <- moment(u, unit, since)
      gone <- lapply(gone, function(one) if (is.null(one)) NULL else moment(one, unit, since))
    }
    if (is.null(u) || any(vapply(gone, identical, TRUE, u))) return(numbers_or_stop(column$missing))
    if (!is.numeric(u)) stop("a cell of ", column$column, " is no number")
    low <- column$clip[[1]]; high <- column$clip[[2]]
    if (column$log) u <- log1p(max(low, u) - low)
    grid <- numbers(column$grid)
    at <- grid[1]
    moved <- 0
    for (j in seq_len(length(grid) - 1)) {
      wide <- grid[j + 1] - grid[j]
      moved <- moved + round(max(0, min(1, (u - grid[j]) / wide)) * column$steps) / column$steps * wide
    }
    u <- at + moved
    if (!column$log) u <- max(low, min(high, u))
    knots <- numbers(column$knots)
    b <- vapply(seq_along(knots), function(j) max(0, min(1,
      if (j > 1) (u - knots[j - 1]) / (knots[j] - knots[j - 1]) else 1,
      if (j < length(knots)) (knots[j + 1] - u) / (knots[j + 1] - knots[j]) else 1)), 0)
    if (length(b) == 0) b <- u
  } else {
    if (is.null(u)) return(numbers_or_stop(column$missing))
    if (is.numeric(u)) u <- if (u == floor(u)) sprintf("%.0f", u) else sprintf("%.15g", u)
    k <- column$codes[[u]]
    if (is.null(k)) k <- -2
    if (k < 0) return(numbers_or_stop(if (k == -1) column$missing else column$unknown))
    b <- if (!is.null(column$scores)) column$scores[[k + 1]] else
      as.numeric(seq_along(column$centre) == k + 1)
  }
  c((b - numbers(column$centre)) / numbers(column$scale), numbers(column$present))
}
numbers_or_stop <- function(given) {
  if (is.null(given)) stop("a value is missing, or nobody declared it, and the schema allows neither")
  numbers(given)
}
encode <- function(row, encoding) {
  missing <- unlist(encoding$na)
  x <- unlist(lapply(encoding$columns, function(one) cell(one, row[[one$column]], missing)))
  if (length(encoding$weights)) x <- x * numbers(encoding$weights)
  long <- sqrt(sum(x^2))
  x / max(long, encoding$norm)
}

# --- the model ---
dot <- function(a, b, start = 0) { for (j in seq_along(a)) start <- start + a[j] * b[j]; start }
linear <- function(x, part, m) {
  if (length(m$classes) == 2) return(dot(x, numbers(part$coef), part$intercept))
  mapply(function(w, b) dot(x, numbers(w), b), part$coef, numbers(part$intercept))
}
low_level <- function(x, group, m) {
  z <- linear(x[numbers(group$features) + 1], group, m)
  z <- group$sharpness * (z - group$baseline)
  if (m$combine == "stack") return(tanh(z / 2) / sqrt(length(m$groups)))
  if (m$combine == "alone") return(z)
  if (length(z) == 1) sign(z) else as.numeric(seq_along(z) == which.max(z))
}
decision <- function(x, m) {
  x <- pmax(-1e100, pmin(1e100, x))
  if (m$kind == "linear") z <- linear(x, m, m)
  else {
    each <- matrix(unlist(lapply(m$groups, low_level, x = x, m = m)), ncol = length(m$groups))
    z <- apply(each, 1, dot, numbers(m$coef), m$intercept)
  }
  if (is.list(m$link)) m$link$slope * z + m$link$shift else z
}
predict_row <- function(row, m) {
  s <- decision(if (is.null(m$encoder)) numbers(row) else encode(row, m$encoder$encoding), m)
  share <- identical(m$link, "share")
  if (length(s) == 1) {
    u <- if (share) s / dot(numbers(m$coef), rep(1, length(m$coef))) else s
    w <- if (share) c(1 - u, 1 + u) else pmin((1 + tanh(c(-u, u) / 2)) / 2, m$link$cap)
    best <- 1 + (u > 0)
  } else {
    w <- if (share) s else exp(s - max(s))
    best <- which.max(s)
  }
  names <- if (is.null(m$encoder$labels)) m$classes else m$encoder$labels
  list(label = names[[best]], probability = w / sum(w))
}

if (sys.nframe() == 0) {
  given <- commandArgs(trailingOnly = TRUE)
  whole <- read_json(given[1])
  m <- whole$model
  if (length(given) == 1) {
    off <- vapply(whole$test_vectors, function(one) {
      found <- predict_row(if (is.null(m$encoder)) one$x else one$row, m)
      if (!identical(as.character(found$label), as.character(one$label))) return(Inf)
      max(abs(found$probability - numbers(one$probability)))
    }, 0)
    cat("largest difference:", format(max(off), digits = 3), "\n")
    quit(status = as.integer(max(off) > 1e-12))
  }
  table <- read.csv(given[2], colClasses = "character", check.names = FALSE, na.strings = character(),
                    fileEncoding = "UTF-8-BOM")
  names <- unlist(if (is.null(m$encoder$labels)) m$classes else m$encoder$labels)
  found <- lapply(seq_len(nrow(table)), function(i) predict_row(as.list(table[i, , drop = FALSE]), m))
  out <- data.frame(label = vapply(found, function(one) as.character(one$label), ""),
                    do.call(rbind, lapply(found, `[[`, "probability")))
  names(out)[-1] <- paste("probability of", names)
  write.csv(out, row.names = FALSE)
}
