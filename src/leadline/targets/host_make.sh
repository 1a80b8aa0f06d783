# Make the run's folder on host NUMBER: FOLDER RUN TOKEN NUMBER. Prints the number of the host that
# made it: several hosts may mount one filesystem, and a lost command is repeated.
folder=$1 run=$2 token=$3 number=$4
owner=$folder/.leadline-owner
if mkdir -- "$folder"; then
    printf '%s %s %s\n' "$run" "$number" "$token" >"$owner" || exit 1
    # The mark is durable before there is data: without it, nothing is removed.
    sync -- "$owner" "$folder" "${folder%/*}/" 2>/dev/null || :
    echo "$number"
    exit
fi
[ -d "$folder" ] || exit 1
tries=0
until [ -s "$owner" ] || [ "$tries" -eq 30 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
read -r line <"$owner" || exit 1
begin=${line% "$token"}
[ "$begin" != "$line" ] || exit 1
echo "${begin##* }"
