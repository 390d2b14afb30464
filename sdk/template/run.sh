#!/bin/sh
set -u
lib="${0%/*}"
. "$lib/plugin.sh"
set -f
IFS="$newline"

refuse() {
  answer_error "$1" false
  exit 0
}

request=$(read_request protocol command config.greeting config.path state.seen payload.name) ||
  refuse '"the request on standard input is not one JSON object"'
set -- $request
# All of them are JSON: "Ann" with its quotation marks, null when it is absent.
protocol=$1 command=$2 greeting=$3 path=$4 before=$5 name=$6

[ "$protocol" = 2 ] || answer_config_error '"this plugin speaks protocol 2"'
[ "$greeting" != null ] || greeting='"Hello"'
is_string "$greeting" || answer_config_error '"config.greeting must be a string"'
# Relative to the plugin's directory, where it runs.
[ "$path" != null ] || path='"README.md"'
case $path in
  *\\*) answer_config_error '"config.path must be a path without quotation marks and backslashes"' ;;
  '"'?*) ;;
  *) answer_config_error '"config.path must be a string"' ;;
esac

# Runs on a schedule. state_updates is the state of the next poll.
poll() {
  file=$(inner "$path")
  seen=$(cksum 2>/dev/null <"$file") || { answer_error "\"cannot read $file\""; exit 0; }
  seen="\"$seen\""
  if [ "$seen" = "$before" ]; then
    answer_ok "\"$file is as it was\""
  else
    event="{\"type\":\"your-plugin.changed\",\"payload\":{\"path\":$path}}"
    answer_ok "\"$file changed\"" "\"events\":[$event],\"state_updates\":{\"seen\":$seen}"
  fi
}

# Runs for an event, a call or a step.
handle() {
  is_string "$name" || refuse '"payload.name is missing"'
  text="\"$(inner "$greeting"), $(inner "$name")\""
  answer_ok "$text" "\"events\":[{\"type\":\"your-plugin.greeted\",\"payload\":{\"text\":$text}}]"
}

case $command in
  '"poll"') poll ;;
  '"handle"') handle ;;
  '"health"') answer_ok "\"greets with $(inner "$greeting"), looks at $(inner "$path")\"" ;;
  '"'*) refuse "\"unknown command $(inner "$command"); there are poll, handle and health\"" ;;
  *) refuse '"command must be a string"' ;;
esac
