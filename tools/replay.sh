#!/bin/sh
# Whether two states of evoq make the same of every model of the data folder: the same files byte by
# byte, the same outputs bit by bit, and the same explanations but for their times.
#   tools/replay.sh BEFORE [AFTER] [replay.py's options: --only TEXT, --data DIR, --jobs N, ...]
# BEFORE and AFTER are commits (built in build/replay/COMMIT, which ccache makes quick), or build
# folders; AFTER is build/release where it is left out.
# Ends with 'N equal, N different' and exit status 1 where something differs.
set -eu
cd "$(dirname "$0")/.."

# Prints the build folder of a commit, building it, or of a folder.
build_of() {
  if [ -x "$1/bin/evoq" ]; then
    echo "$1"
    return
  fi
  commit=$(git rev-parse --verify "$1^{commit}")
  tree=build/replay/$commit
  if [ ! -d "$tree" ]; then git worktree add --detach "$tree" "$commit" >&2; fi
  (
    cd "$tree"
    cmake --preset release -DEVOQ_BENCH=OFF >&2
    cmake --build --preset release --target evoq >&2
  )
  echo "$tree/build/release"
}

if [ $# -eq 0 ]; then
  sed -n '2,7p' "$0" >&2
  exit 2
fi
before=$1
shift
after=build/release
case ${1:---} in
  --*) ;;
  *)
    after=$1
    shift
    ;;
esac
before=$(build_of "$before")
after=$(build_of "$after")
exec python3 tools/replay.py "$before/bin/evoq" "$after/bin/evoq" "$@"
