# Shared by ./ductile, tools/* and .ci/run, which set $root first. POSIX sh.

lock=$root/build/lock

say() { printf 'ductile: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Leaves the tree installed and built, whatever it was before.
prepare() {
  if is_installed && is_built; then return; fi
  take_lock
  is_installed || install
  is_built || build
  release_lock
}

prepare_dependencies() {
  if is_installed; then return; fi
  take_lock
  is_installed || install
  release_lock
}

# npm writes its own copy of the lock file last of all, so a half-done install has none.
is_installed() {
  [ -f "$root/node_modules/.package-lock.json" ] || return 1
  ! [ "$root/package-lock.json" -nt "$root/node_modules/.package-lock.json" ]
}

# The stamp carries the time the build began. Folders are compared too: a deleted file shows there.
is_built() {
  [ -f "$root/dist/.stamp" ] || return 1
  newer=$(
    cd "$root" &&
      find src extras native web tools/build.ts tools/build-ui.ts tools/compile-spawner.ts package-lock.json \
        -newer dist/.stamp 2>/dev/null |
      head -n 1
  )
  [ -z "$newer" ]
}

install() {
  say 'installing dependencies (once)…'
  command -v npm >/dev/null || fail 'npm was not found; install Node.js with npm, then run this again'
  run_quietly "$root/build/install.log" install_from_lock ||
    fail 'installing the dependencies failed (npm ci)'
  # A prebuilt Node that this system cannot run (another libc) gives way to the system's own.
  "$root/node_modules/.bin/node" --version >/dev/null 2>&1 || rm -f "$root/node_modules/.bin/node"
}

install_from_lock() (
  cd "$root" || exit 1
  # The Node that npm is about to delete and replace must not be the one that runs npm.
  PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v '/node_modules/\.bin/*$' | paste -s -d : -)
  # A production environment leaves out what the build needs, unless it is asked for.
  npm ci --include=dev --include=optional
)

build() {
  say 'building…'
  find_node
  run_quietly "$root/build/build.log" "$node" "$root/tools/build.ts" || fail 'the build failed'
}

# Sets $node to the project's own Node, else to the system's when that is new enough.
find_node() {
  node=$root/node_modules/.bin/node
  if [ -x "$node" ]; then return; fi
  node=$(command -v node) || fail 'Node.js was not found; install it, then run this again'
  "$node" "$root/bin/floor.cjs" || exit 1
}

run_quietly() {
  output=$1
  shift
  "$@" >"$output" 2>&1 && return
  cat "$output" >&2
  return 1
}

# Whether the tests of the dashboard are among those that these arguments of vitest name.
wants_browser() {
  named=
  for argument in "$@"; do
    case $argument in
    -*) ;;
    test | test/ui* | ui*) return 0 ;;
    *) named=yes ;;
    esac
  done
  [ -z "$named" ]
}

# The tests of the dashboard run in a real browser, which root can install here.
bring_browser() {
  for browser in /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
    if [ -x "$browser" ]; then return; fi
  done
  order='apt-get install -y --no-install-recommends chromium'
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say 'installing Chromium for the tests of the dashboard (once)…'
    mkdir -p "$root/build"
    run_quietly "$root/build/browser.log" install_browser && return
  fi
  fail "the tests of the dashboard need Chromium: $order"
}

install_browser() { apt-get update && DEBIAN_FRONTEND=noninteractive $order; }

# Where tests keep what dies with them: in memory, which waits for no disk, if there is plenty of it
# and programs may be run there.
pick_memory() {
  free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  if [ "${free:-0}" -gt 4000000 ] && runs_programs /dev/shm; then
    printf /dev/shm
  else
    printf %s "${TMPDIR:-/tmp}"
  fi
}

runs_programs() {
  probe=$(mktemp "$1/ductile-XXXXXX" 2>/dev/null) || return 1
  printf '#!/bin/sh\n' >"$probe"
  chmod 700 "$probe"
  "$probe" 2>/dev/null && runs=0 || runs=1
  rm -f "$probe"
  return $runs
}

# run_step NAME COMMAND…: runs it and says how long it took.
run_step() {
  step=$1
  shift
  began=$(date +%s)
  printf '== %s\n' "$step"
  "$@"
  printf '== %s: %s s\n' "$step" "$(($(date +%s) - began))"
}

# One process at a time installs or builds. A symbolic link appears at once with its content, so
# there is never a lock without the process id of its owner.
take_lock() {
  mkdir -p "$root/build"
  [ -w "$root/build" ] || fail "cannot write to $root/build"
  told=
  until ln -s "pid-$$" "$lock" 2>/dev/null; do
    owner=$(read_owner)
    if [ -n "$owner" ] && ! is_alive "$owner"; then
      break_lock "$owner"
      continue
    fi
    [ -n "$told" ] || say "waiting for process ${owner:-?}, which installs or builds ($lock)"
    told=yes
    sleep 1
  done
  trap release_lock EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

release_lock() {
  rm -f "$lock"
  trap - EXIT INT TERM HUP
}

read_owner() { readlink "$lock" 2>/dev/null | sed 's/^pid-//'; }

is_alive() { kill -0 "$1" 2>/dev/null || [ -d "/proc/$1" ]; }

# Of several that found the same dead owner only one may remove its lock, and only while it is still
# that owner's; otherwise the second would remove the lock that the first has just taken.
break_lock() {
  if mkdir "$lock.breaking" 2>/dev/null; then
    [ "$(read_owner)" != "$1" ] || rm -f "$lock"
    rmdir "$lock.breaking"
  else
    sleep 1
  fi
}
