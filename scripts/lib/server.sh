# shellcheck shell=bash
#
# A server with the module, started for a while by scripts/run and scripts/demo.
# Sourced after common.sh.

PORT=  # where it listens, on 127.0.0.1
DIR=   # what it writes; a temporary folder unless it is set before
SERVER_PID=

taken() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# 6379, or the next free one.
free_port() {
  local port
  for ((port = 6379; port < 6479; port++)); do taken "$port" || break; done
  say "$port"
}

port_is_taken() {
  die "port $PORT is taken: something already listens there" \
    'stop it, choose another with --port N, or leave --port out and a free one is found'
}

# Starts $SERVER with the module on $PORT and waits until it answers. It is
# stopped, and its folder removed, when the script ends: see keep_server.
start_server() {
  local deadline=$((SECONDS + 20))
  [[ -n $DIR ]] || DIR=$(mktemp -d "${TMPDIR:-/tmp}/redis-rl.XXXXXX")
  trap stop_server EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP

  # In a session of its own: a Ctrl-C here is ours to handle, and a server
  # that is kept outlives this terminal.
  setsid "$SERVER" --port "$PORT" --bind 127.0.0.1 --dir "$DIR" --save '' --appendonly no \
    --daemonize no --loadmodule "$MODULE" </dev/null >"$DIR/server.log" 2>&1 &
  SERVER_PID=$!

  until taken "$PORT" && grep -q 'Ready to accept connections' "$DIR/server.log"; do
    if ! kill -0 "$SERVER_PID" 2>/dev/null || ((SECONDS > deadline)); then
      if grep -qi 'address already in use' "$DIR/server.log"; then port_is_taken; fi
      cat "$DIR/server.log" >&2
      die "$SERVER did not start; what it said is above"
    fi
    sleep 0.05
  done
}

stop_server() {
  if [[ -n $SERVER_PID ]]; then
    kill "$SERVER_PID" 2>/dev/null || true
    wait "$SERVER_PID" 2>/dev/null || true
  fi
  rm -rf "$DIR"
}

keep_server() { trap - EXIT; }
