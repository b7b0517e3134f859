/** Shell fragments that depend on nothing but bash itself: no time, pid, path of the directory or variable. */
const FRAGMENTS = [
  'echo plain',
  'echo "a  b"   c',
  "echo 'it'\\''s' \"\\$x\" $'tab\\there'",
  'echo -n no-newline',
  "printf '%s|%5d|%-5s|%x\\n' a 42 b 255",
  "printf '%d\\n' notanumber",
  "printf 'a\\r\\nb\\0c\\n'",
  "printf '\\xc3\\xa9\\n'; printf '%q\\n' 'a b$c'",
  'echo "你好 🌍"; x="héllo"; echo "${#x} ${x:1:2} ${x^^}"',
  'seq 1 5 | tac | paste -sd, | tr , ";"',
  'echo b a c | tr " " "\\n" | sort | uniq -c',
  'seq 1 100000 | head -2; echo "${PIPESTATUS[0]}"',
  'echo out; echo err >&2; echo out again',
  '{ echo one; echo two >&2; } 2>&1 | sed "s/^/> /"',
  'ls missing-file',
  'cat missing-file || echo "failed $?"',
  'missing-command argument',
  './missing-script',
  'echo text > file; cat file; wc -c < file',
  'echo one >> log; echo two >> log; cat log',
  'cat < missing-input',
  'exec 5> five; echo to five >&5; exec 5>&-; cat five',
  'echo hidden > /dev/null 2>&1; echo gone 2> /dev/null',
  'set -o noclobber; echo a > once; echo b > once; set +o noclobber',
  'x=$(echo inner; exit 3); echo "$x $?"',
  'echo "nested $(echo "deep $(echo `echo old`)")"',
  'a=(one "two three" four); echo "${#a[@]} ${a[1]} ${a[@]:1}"; a+=(five); echo "${!a[@]}"',
  'declare -A m=([k]=v); echo "${m[k]} ${m[missing]-none}"; declare -p m',
  'i=0; ((i+=5, i*=3)); echo "$i $((i % 4)) $((2**10)) $((16#ff)) $((i > 3 ? 1 : 0))"',
  'echo $((1 / 0))',
  '((0)); echo "$?"; let "y=3*4"; echo "$y"',
  'cat <<EOF\nvalue ${undefined-default} $((1+2)) $(echo sub)\nEOF',
  "cat <<'EOF'\nliteral $x `y` \\z\nEOF",
  'cat <<-EOF\n\tindented\n\tEOF',
  'read -r line <<< "here string"; echo "$line"',
  'cat <<EOF\nunfinished here-document',
  '(cd / && pwd; exit 4); echo "$?"',
  '(x=inner; echo "$x"); echo "${x-outer}"',
  'f() { local v=$1; echo "f:$v:$#"; return "${2:-0}"; }; f a 7; echo "$?"',
  'g() { echo "${FUNCNAME[0]}"; [ "$1" -gt 0 ] && g $(($1 - 1)); }; g 2',
  "trap 'echo trapped' EXIT",
  "trap 'echo error' ERR; false; trap - ERR",
  "trap 'echo term' TERM; kill -TERM $$; trap - TERM",
  'touch b.txt a.txt c.md; echo *.txt [bc].* ?.md',
  'echo *.nothing; shopt -s nullglob; echo *.nothing; shopt -u nullglob',
  'mkdir -p d/e; touch d/e/f; find d | sort; rmdir d',
  'echo {1..5} {a,b}{1,2} {z..w..2}',
  'case "apple" in a*) echo fruit;; *) echo other;; esac',
  'for i in 1 2 3; do [ $i = 2 ] && continue; echo "i=$i"; done',
  'n=3; while ((n > 0)); do echo "n=$n"; ((n--)); done',
  'until true; do echo never; done; echo "$?"',
  'select x in a b; do echo "$x"; done',
  'if [[ "abc123" =~ ^([a-z]+)([0-9]+)$ ]]; then echo "${BASH_REMATCH[1]}-${BASH_REMATCH[2]}"; fi',
  '[[ a < b && ! -e missing ]] && echo ordered || echo unordered',
  '[ 1 -eq one ]; echo "$?"',
  'set -u; echo "$undefined_variable"; echo never',
  'set -e; false; echo never',
  'set -o pipefail; false | true; echo "$?"; set +o pipefail; false | true; echo "$?"',
  'set -x; echo traced; set +x',
  's=path/to/file.tar.gz; echo "${s##*/} ${s%%.*} ${s/to/from} ${s//t/T}"',
  'echo "${undefined:?is not set}"',
  'unset x; echo "${x:=assigned} $x ${x:+alternative}"',
  'readonly r=1; r=2; echo "$?"',
  'IFS=: read -r a b c <<< "1:2:3:4"; echo "$a|$b|$c"',
  'set -- a "b c" d; shift; echo "$# $1 $*"; printf "<%s>" "$@"; echo',
  'while getopts ab: o -a -b value; do echo "$o ${OPTARG-}"; done',
  'mapfile -t lines < <(printf "x\\ny\\n"); echo "${#lines[@]} ${lines[1]}"',
  'read -r x; echo "$? [$x]"; cat; wc -c',
  'eval "echo evaluated; (exit 6)"; echo "$?"',
  'type -t echo if f_missing; command -v cd',
  'bash -c "echo child \\$0 \\$1; exit 9" zero one; echo "$?"',
  'echo $0 $# "$LINENO"',
  'sort -n <<< $(echo 10; echo 9) | xargs -n1 echo item',
  'awk \'BEGIN { for (i = 0; i < 3; i++) printf "%d ", i * i; print "" }\'',
  'sleep 0.01 & wait $!; echo "waited $?"',
  'true && echo yes || echo no; false && echo yes || echo no; ! true; echo "$?"',
  'exit 300',
  'exit abc',
  'return 3; echo "returned $?"',
  'kill -9 $$',
  'exec echo replaced',
  'exec missing-program',
  'cd missing-directory; echo "$?"',
  'echo "open quote',
  'if true; then echo no end',
  'echo ) stray',
  'for x in; do; done',
  'echo a |; echo b',
  '}',
  'echo \\',
  'echo $(echo unclosed',
];

/** Commands around fragments; `%` stands for them. */
const FRAMES = [
  '%',
  '%',
  '(\n%\n)\necho "subshell $?"',
  '{\n%\n}',
  'frame() {\n%\n}\nframe a b\necho "function $?"',
  'echo "[$(\n%\n)]"',
  '{\n%\n} 2>&1 | cat\necho "${PIPESTATUS[@]}"',
  'set -e\n%\necho reached',
  'set -u\n%',
  'set -eo pipefail\n%',
  'trap \'echo "bye $?"\' EXIT\n%',
  'if\n%\nthen echo good; else echo "bad $?"; fi',
  'for round in 1 2; do\n%\ndone',
  'eval "$(cat <<\'FRAME\'\n%\nFRAME\n)"',
  'bash <<\'FRAME\'\n%\nFRAME\necho "from input $?"',
  '%\nexit 17',
];

/** The same commands for the same seed, on every machine. */
export function randomCommands(count: number, seed: number): string[] {
  const random = mulberry32(seed);
  const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] ?? '';
  return Array.from({ length: count }, (_, index) => {
    // Each fragment comes up at least once by itself.
    const first = FRAGMENTS[index] ?? pick(FRAGMENTS);
    if (index < FRAGMENTS.length) return first;
    const body = [first, ...Array.from({ length: Math.floor(random() * 3) }, () => pick(FRAGMENTS))].join('\n');
    return pick(FRAMES).replace('%', () => body);
  });
}

function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
