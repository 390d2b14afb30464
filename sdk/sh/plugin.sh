# Helpers for plugins in POSIX sh. Needs awk and nothing else. A plugin begins with
#
#   lib="${0%/*}"          # where this file and json.awk are
#   . "$lib/plugin.sh"
#   set -f
#   IFS="$newline"
#   request=$(read_request command config.message payload) || exit
#   set -- $request
#
# and then has the values as compact JSON in $1, $2 and $3 (`null` when absent). Values stay JSON
# all the way into the answer, so nothing is ever unescaped and escaped again.

newline='
'

# Standard output is only for the response; other output goes to standard error.
exec 3>&1 1>&2

# Reads standard input to its end and prints one line for each path.
read_request() {
  LC_ALL=C awk -v wanted="$*" -f "$lib/json.awk"
}

# answer_ok RESULT [MEMBERS]: RESULT is a JSON string, MEMBERS further members as JSON.
answer_ok() {
  printf '{"status":"ok","result":%s%s}\n' "$1" "${2:+,$2}" >&3
}

# answer_error MESSAGE [RETRY [SECONDS]]: MESSAGE is a JSON string, SECONDS when to try again at the soonest.
answer_error() {
  printf '{"status":"error","error":%s,"retry":%s%s}\n' "$1" "${2:-true}" "${3:+,\"retry_after_seconds\":$3}" >&3
}

# Reports a configuration error; only a changed configuration helps.
answer_config_error() {
  answer_error "$1" false
  exit 78
}

is_string() {
  case $1 in '"'*) return 0 ;; *) return 1 ;; esac
}

# True for a JSON integer from 0 to $2.
is_whole() {
  case $1 in '' | *[!0-9]* | ??????????*) return 1 ;; esac
  [ "$1" -le "$2" ]
}

# Prints the inside of a JSON string, for another string.
inner() {
  without=${1#\"}
  printf '%s' "${without%\"}"
}
