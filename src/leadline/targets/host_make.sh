# Make our folder on host NUMBER: FOLDER RUN TOKEN NUMBER. Says whose it is: with a filesystem that
# several hosts mount, that of the first who made it; and a command that was lost may come again.
folder=$1 run=$2 token=$3 number=$4
owner=$folder/.leadline-owner
if mkdir -- "$folder"; then
    printf '%s %s %s\n' "$run" "$number" "$token" >"$owner" && echo "$number"
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
