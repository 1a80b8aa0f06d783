# Remove a folder of ours: FOLDER TOKEN, on stdin the names of files besides generated ones. Says
# what keeps it. What does not carry our token is not ours and stays, as do files of others.
folder=$1 token=$2
owner=$folder/.leadline-owner
if [ ! -d "$folder" ] || [ -L "$folder" ]; then
    exit 0
fi
if [ -s "$owner" ]; then
    read -r line <"$owner" || exit 1
    case $line in
        *" $token") ;;
        *) echo "carries another owner's mark and was left alone"; exit 0 ;;
    esac
fi
while IFS= read -r name; do
    if [ -f "$folder/$name" ]; then rm -f -- "$folder/$name" || exit 1; fi
done
find "$folder" -maxdepth 1 ! -type d -name 'leadline.*.dat' -exec rm -f -- {} + || exit 1
strangers=$(find "$folder" -mindepth 1 -maxdepth 1 ! -name .leadline-owner -exec basename {} \; |
    head -n 5 | paste -sd , -)
if [ -n "$strangers" ]; then
    echo "holds files that Leadline did not make and was kept: $strangers"
    exit 0
fi
rm -f -- "$owner" && rmdir -- "$folder"
