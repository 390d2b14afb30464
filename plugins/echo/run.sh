#!/bin/sh
# Returns its input, and misbehaves on request: a plugin for experiments.
set -u

lib="${0%/*}/../../sdk/sh"
. "$lib/plugin.sh"

set -f
IFS="$newline"

request=$(read_request protocol command config.message \
  payload payload.fail payload.sleep_ms payload.exit \
  event.payload event.payload.fail event.payload.sleep_ms event.payload.exit) || {
  answer_error '"the request on standard input is not one JSON object"' false
  exit 0
}
set -- $request

if [ "$1" != 2 ]; then
  echo 'echo: this plugin speaks protocol 2' >&2
  answer_config_error '"this plugin speaks protocol 2"'
fi

command=$2
message=$3
[ "$message" = null ] || is_string "$message" ||
  answer_config_error '"config.message must be a string"'

# A routed event carries its own payload; everything else comes with the plain one.
if [ "$command" = '"handle"' ] && [ "$8" != null ]; then
  payload=$8 fail=$9 sleep_ms=${10} exit_code=${11}
else
  payload=$4 fail=$5 sleep_ms=$6 exit_code=$7
fi
[ "$payload" != null ] || payload='{}'

refuse() {
  answer_error "$1" false
  exit 0
}

pause() {
  is_whole "$1" 600000 || refuse '"payload.sleep_ms must be a whole number from 0 to 600000"'
  seconds=$(($1 / 1000)) milliseconds=$(($1 % 1000 + 1000))
  # Fractions aren't POSIX, so fall back to whole seconds.
  sleep "$seconds.${milliseconds#1}" 2>/dev/null || sleep $((seconds + 1))
}

quit() {
  is_whole "$1" 255 || refuse '"payload.exit must be a whole number from 0 to 255"'
  exit "$1"
}

echo_back() {
  [ "$sleep_ms" = null ] || pause "$sleep_ms"
  [ "$exit_code" = null ] || quit "$exit_code"
  case $fail in
    null | false) ;;
    true) answer_error '"asked to fail"'; exit 0 ;;
    '"'?*'"') answer_error "$fail"; exit 0 ;;
    *) refuse '"payload.fail must be true or a message"' ;;
  esac
  case $message in null | '""') message='"echoed"' ;; esac
  answer_ok "$message" "\"events\":[{\"type\":\"echo.echoed\",\"payload\":$payload}]"
}

case $command in
  '"poll"' | '"handle"') echo_back ;;
  '"health"') answer_ok '"echo is well"' ;;
  '"'*) refuse "\"unknown command $(inner "$command"); there are poll, handle and health\"" ;;
  *) refuse '"command must be a string"' ;;
esac
