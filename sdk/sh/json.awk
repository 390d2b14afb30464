# Checks one JSON object on standard input and prints the values at the wanted paths.
#
#   LC_ALL=C awk -v wanted='command payload payload.limit' -f json.awk
#
# One line for each path, in order: the value as compact JSON, `null` when it is absent. Keys are
# compared as they are written, so a key spelled with escapes is not found. Anything that is not
# one well-formed object ends with status 65 and prints nothing.
#
# Records end at quotation marks: odd records lie outside strings, even ones inside. Tokens go into
# an array and are never joined on the way, which keeps large requests linear in time.

BEGIN {
  RS = "\""
  LEVEL = "\001"
  wantedCount = split(wanted, names, " ")
  for (i = 1; i <= wantedCount; i++) {
    path = names[i]
    levels = gsub(/\./, LEVEL, path)
    if (levels + 1 > deepest) deepest = levels + 1
    wants[path] = 1
    names[i] = path
  }
  # What may come next: a value, a key, a key or the end, a colon, a comma or the end, nothing.
  expect = "value"
  inside = 0
}

broken { next }
inside { takeString($0); next }
{ takeOutside($0); inside = 1; opening = 1 }

END {
  if (broken || depth != 0 || expect != "nothing") exit 65
  for (i = 1; i <= wantedCount; i++) {
    if (!(names[i] in last)) printf "null"
    else for (j = first[names[i]]; j <= last[names[i]]; j++) printf "%s", tokens[j]
    printf "\n"
  }
}

function takeOutside(text,   parts, count, i) {
  gsub(/[ \t\r\n]+/, "\n", text)
  gsub(/[][{},:]/, "\n&\n", text)
  count = split(text, parts, "\n")
  for (i = 1; i <= count && !broken; i++) if (parts[i] != "") takeToken(parts[i])
}

function takeToken(token) {
  if (token == "{" || token == "[") enter(token)
  else if (token == "}" || token == "]") leave(token)
  else if (token == ",") {
    if (expect != "comma") broken = 1
    expect = kind[depth] == "{" ? "key" : "value"
    push(token)
  } else if (token == ":") {
    if (expect != "colon") broken = 1
    expect = "value"
    push(token)
  } else {
    if (depth == 0) broken = 1
    if (token !~ /^(true|false|null|-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?)$/) broken = 1
    beginValue()
    push(token)
    endValue()
  }
}

function enter(token) {
  beginValue()
  if (depth == 0 && token != "{") broken = 1
  push(token)
  depth++
  kind[depth] = token
  prefix[depth] = here
  expect = token == "{" ? "key or end" : "value or end"
}

function leave(token) {
  if (kind[depth] != (token == "}" ? "{" : "[")) broken = 1
  if (expect != "comma" && expect !~ /or end$/) broken = 1
  push(token)
  here = prefix[depth]
  depth--
  endValue()
}

# One piece of a string. A piece that ends in an odd number of backslashes ends at an escaped mark.
function takeString(piece,   escaped, body) {
  if (opening) beginString()
  escaped = match(piece, /\\+$/) && RLENGTH % 2 == 1
  body = escaped ? substr(piece, 1, length(piece) - 1) : piece
  if (body ~ /[\001-\037]/) broken = 1
  if (body ~ /\\/) {
    gsub(/\\(["\\\/bfnrt]|u[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F])/, "", body)
    if (body ~ /\\/) broken = 1
    keyText = LEVEL
  } else if (stringIsKey) keyText = keyText body
  push((opening ? "\"" : "") piece "\"")
  opening = 0
  if (escaped) { keyText = LEVEL; return }
  inside = 0
  if (stringIsKey) { key[depth] = keyText; expect = "colon" } else endValue()
}

function beginString() {
  keyText = ""
  stringIsKey = expect ~ /^key/
  if (stringIsKey) return
  if (depth == 0) broken = 1
  beginValue()
}

function beginValue() {
  if (expect !~ /^value/) broken = 1
  if (depth == 0) here = ""
  else if (depth > deepest || kind[depth] != "{") here = LEVEL
  else here = depth == 1 ? key[1] : prefix[depth] LEVEL key[depth]
  if (here in wants) first[here] = tokenCount + 1
}

function endValue() {
  if (here in wants) last[here] = tokenCount
  expect = depth == 0 ? "nothing" : "comma"
}

function push(token) { tokens[++tokenCount] = token }
