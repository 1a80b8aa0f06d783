# shellcheck shell=sh
# pgbench on a PostgreSQL server of its own, whose data is on the measured volume.
# $1 `check`: print the versions of what is needed; $1 `run`: one trial in this folder, with
# $2 folder on the volume, $3 scale, $4 built-in script, $5 connections, $6 runtime in s, $7 ramp
# in s, $8 seed, $9 share of the transactions whose latency is logged.
set -u
fail() {
    echo "$1" >&2
    exit 3
}
for bin in /usr/lib/postgresql/*/bin; do # Debian has the server's programs in no PATH
    [ -x "$bin/postgres" ] && PATH=$bin:$PATH
done
for program in postgres initdb pgbench psql setpriv; do
    command -v "$program" >/dev/null || fail "there is no $program: install the package postgresql"
done
user=""
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root
    user=postgres
    id "$user" >/dev/null 2>&1 || fail "PostgreSQL refuses root, and there is no user $user"
fi
as_user() {
    if [ -n "$user" ]; then
        set -- --reuid="$user" --regid="$user" --clear-groups "$@"
    fi
    exec setpriv --pdeathsig QUIT "$@" # the server ends with this shell, even if that is killed
}
if [ "$1" = check ]; then
    pgbench --version && postgres --version
    exit
fi
data=$2 scale=$3 script=$4 connections=$5 runtime=$6 ramp=$7 seed=$8 logged=$9
# A socket's path has 107 bytes at most, too few for the archive's folder; a pod has no /tmp. `leadline
# clean` removes such a folder where its process is gone, and only if it is of the same user.
short=$(mktemp -d "/tmp/leadline-postgres-$$-XXXXXX" 2>/dev/null) || short=$PWD/socket
socket=$short/of
mkdir -p "$socket" && : >"$short/.leadline-scratch" && chmod 711 "$short" && chmod 700 "$socket" || exit 3
server="" child="" talk=""
tidy() {
    trap '' INT TERM HUP
    rm -rf "$short" # first: on a slow disk the rest may take longer than this shell has
    for started in $talk $child; do # initdb first completes the step that it is in
        kill -TERM "$started" 2>/dev/null
        wait "$started"
    done
    if [ -n "$server" ]; then # at once, without a checkpoint: the data is not needed any more
        kill -QUIT "$server" 2>/dev/null
        wait "$server"
    fi
    rm -rf "$data"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP
run() { # in the background, since a shell that waits for a program runs no trap
    "$@" &
    child=$!
    wait "$child"
    status=$?
    child=""
    return "$status"
}
sql() {
    run psql --host="$socket" --username=leadline --dbname=postgres --no-psqlrc --quiet \
        --no-align --tuples-only --set=ON_ERROR_STOP=1 --command="$1"
}
bench() {
    run pgbench --host="$socket" --username=leadline "$@" postgres
}
rm -rf "$data" && mkdir "$data" && chmod 700 "$data" || exit 3
[ -z "$user" ] || chown "$user" "$data" "$socket"
if [ -n "$user" ] && ! (as_user test -w "$data/."); then
    fail "the user $user cannot reach $data: PostgreSQL refuses root, so each folder above needs mode o+x"
fi
(as_user initdb --pgdata="$data/cluster" --username=leadline --auth=trust --encoding=UTF8 \
    --locale=C --no-sync) >initdb.txt 2>&1 &
child=$!
wait "$child" || fail "initdb failed: $(tail -n 1 initdb.txt)"
child=""
(as_user postgres -D "$data/cluster" -c listen_addresses= -c unix_socket_directories="$socket" \
    -c max_connections=$((connections + 10)) -c shared_buffers=128MB -c fsync=on \
    -c synchronous_commit=on -c full_page_writes=on -c max_wal_size=1GB) >postgres.txt 2>&1 &
server=$!
until sql "SELECT 1" >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || fail "postgres ended: $(tail -n 1 postgres.txt)"
    sleep 0.1
done
bench --initialize --scale="$scale" --quiet >initialize.txt 2>&1 ||
    fail "pgbench --initialize failed: $(tail -n 1 initialize.txt)"
# The same state before each trial: no dead rows, statistics, nothing that waits for its write.
if ! sql "VACUUM ANALYZE" || ! sql "CHECKPOINT"; then fail "VACUUM and CHECKPOINT failed"; fi
sql "SELECT name || '=' || current_setting(name) FROM pg_settings WHERE name IN
    ('autovacuum', 'block_size', 'checkpoint_timeout', 'data_checksums', 'fsync',
     'full_page_writes', 'max_connections', 'max_wal_size', 'server_version', 'shared_buffers',
     'synchronous_commit', 'wal_sync_method') ORDER BY 1" >settings.txt &&
    sql "SELECT 'database_bytes=' || pg_database_size('postgres')" >>settings.txt || exit 3
set -- --no-vacuum --builtin="$script" --client="$connections" --random-seed="$seed" \
    --jobs="$(($(nproc) < connections ? $(nproc) : connections))" --progress=1
if [ "$ramp" != 0 ]; then
    bench "$@" --time="$ramp" >ramp.txt 2>&1 || fail "pgbench failed: $(tail -n 1 ramp.txt)"
fi
: >pgbench.txt
tail -f pgbench.txt &
talk=$!
bench "$@" --time="$runtime" --log --log-prefix=transaction --sampling-rate="$logged" \
    >pgbench.txt 2>&1 || fail "pgbench failed: $(tail -n 1 pgbench.txt)"
cat transaction.* | gzip -1 >transactions.gz && rm transaction.* || exit 3
mv transactions.gz transactions.log.gz
