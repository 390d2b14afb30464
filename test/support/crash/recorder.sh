# Keeps a record of what it does, as recorder.ts says.
read -r request
payload=${request#*'"payload":'}

# What a member of some JSON is, in value.
member() {
  value=
  [[ $2 == *"\"$1\":"* ]] || return 1
  value=${2#*"\"$1\":"}
  case $value in
    '"'*) value=${value#'"'} value=${value%%'"'*} ;;
    *) value=${value%%[,\}]*} ;;
  esac
}

# When a process was born, in value; nothing of one that is over.
born() {
  value=
  { read -r value < "/proc/$1/stat"; } 2>/dev/null || return 0
  set -- ${value##*) }
  if [[ $1 == [ZX] ]]; then value=; else value=${20}; fi
}

member job_id "$request"; job=$value
member instance "$request"; instance=$value
member attempt "$request"; attempt=$value
member idempotency_key "$request"; idempotency_key=$value
config=${request#*'"config":'}
member file "$config"; file=$value
member emits "$config"; emits=$value
member key "$payload"; key=$value

born $$; self=$value
survivors=
if [[ $attempt -gt 1 || -n $key ]] && [[ -e $file ]]; then
  while read -r line; do
    member pid "$line"; pid=$value
    member born "$line"; then=$value
    born "$pid"
    if [[ $value == "$then" ]]; then survivors+=${survivors:+,}$pid; fi
  done < <(grep -F -e "$job" ${key:+-e "\"key\":\"$key\""} "$file" | grep -F '"phase":"start"')
fi

record() {
  local now=${EPOCHREALTIME/[.,]/}
  local line="{\"job_id\":\"$job\",\"plugin\":\"$instance\",\"attempt\":$attempt"
  line+=",\"idempotency_key\":\"$idempotency_key\",\"phase\":\"$1\",\"at\":${now%???}"
  line+=",\"pid\":$$,\"born\":\"$self\",\"survivors\":[$2]${key:+,\"key\":\"$key\"}}"
  printf '%s\n' "$line" >> "$file" && sync "$file" || exit 1
}

record start "$survivors"
# It stays the same process, so that whoever ends that one ends it.
if member hang_before "$payload" && ((attempt < value)); then exec sleep infinity; fi
if member fail_before "$payload" && ((attempt < value)); then
  echo '{"status":"error","error":"as it was asked to"}'
  exit
fi
if member sleep_ms "$payload"; then sleep "$((value / 1000)).$(printf %03d $((value % 1000)))"; fi
record end
events=
if [[ $emits == true ]]; then
  member ref "$payload"
  events="{\"type\":\"recorder.done\",\"payload\":{\"ref\":$value}"
  if member dedupe "$payload"; then events+=",\"dedupe_key\":\"$value\""; fi
  events+='}'
fi
echo "{\"status\":\"ok\",\"result\":\"done\",\"events\":[$events]}"
