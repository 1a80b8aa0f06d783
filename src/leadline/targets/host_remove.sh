# Remove the run's folder: FOLDER TOKEN, on stdin the names of files other than generated ones.
# Prints what keeps it. A folder without the token stays, as do files that Leadline did not make.
folder=$1 token=$2
owner=$folder/.leadline-owner
if [ ! -d "$folder" ] || [ -L "$folder" ]; then
    exit 0
fi
if [ -s "$owner" ]; then
    read -r line <"$owner" || exit 1
    case $line in
        *" $token") ;;
        *) echo "carries the mark of another owner and was kept"; exit 0 ;;
    esac
fi
while IFS= read -r name; do
    if [ -f "$folder/$name" ]; then rm -f -- "$folder/$name" || exit 1; fi
done
find "$folder" -maxdepth 1 ! -type d \( -name 'leadline.*.dat' -o -name leadline.ceph.conf \) \
    -exec rm -f -- {} + || exit 1
foreign=$(find "$folder" -mindepth 1 -maxdepth 1 ! -name .leadline-owner -exec basename {} \; |
    head -n 5 | paste -sd , -)
if [ -n "$foreign" ]; then
    echo "holds files that Leadline did not make and was kept: $foreign"
    exit 0
fi
rm -f -- "$owner" && rmdir -- "$folder"
