# Remove the run's folder: FOLDER RUN TOKEN, on stdin the names of files other than generated ones.
# Prints what keeps it. A folder without the run's mark stays, as do files that Leadline did not
# make; one without a whole mark goes only where nothing else is in it.
folder=$1 run=$2 token=$3
owner=.leadline-owner
if [ -L "$folder" ] || { [ -e "$folder" ] && [ ! -d "$folder" ]; }; then
    echo "is a link or a file, and no folder of Leadline's; it was kept"
    exit 0
fi
[ -e "$folder" ] || exit 0
# From here on all names are below this folder, whatever takes its place.
cd -P -- "$folder" || exit 1
if [ "$(stat -c %d:%i .)" != "$(stat -c %d:%i -- "$folder")" ]; then
    echo "was exchanged while it was removed; it was kept"
    exit 0
fi
inside=$(find . -mindepth 1 -maxdepth 1 ! -name "$owner" -exec basename {} \; |
    head -n 5 | paste -sd , -)
marked=
if [ -f "$owner" ] && [ ! -L "$owner" ] && [ "$(stat -c %u "$owner")" = "$(stat -c %u .)" ]; then
    # A power cut leaves zeros where the mark was to be written.
    line=$(head -c 4096 -- "$owner" | tr -d '\000') || exit 1
    number=${line#"$run "}
    number=${number%" $token"}
    case $number in
        '' | *[!0-9]*) ;;
        *) [ "$line" != "$run $number $token" ] || marked=whole ;;
    esac
    if [ -z "$marked" ]; then
        # A part of the mark: up to the run, with the number, or with a part of the token.
        case "$run " in "$line"*) marked=torn ;; esac
        number=${line#"$run "}
        if [ "$number" != "$line" ]; then
            rest=${number#"${number%%[!0-9]*}"}
            case " $token" in "$rest"*) marked=torn ;; esac
        fi
    fi
    if [ -z "$marked" ]; then
        echo "carries the mark of another owner and was kept"
        exit 0
    fi
elif [ -e "$owner" ] || [ -L "$owner" ]; then
    echo "carries the mark of another owner and was kept"
    exit 0
fi
if [ "$marked" != whole ] && [ -n "$inside" ]; then
    echo "carries no whole mark of this run and holds files; it was kept: $inside"
    exit 0
fi
while IFS= read -r name; do
    if [ -f "./$name" ] || [ -L "./$name" ]; then rm -f -- "./$name" || exit 1; fi
done
find . -maxdepth 1 ! -type d \( -name 'leadline.*.dat' -o -name leadline.ceph.conf \) \
    -exec rm -f -- {} + || exit 1
foreign=$(find . -mindepth 1 -maxdepth 1 ! -name "$owner" -exec basename {} \; |
    head -n 5 | paste -sd , -)
if [ -n "$foreign" ]; then
    echo "holds files that Leadline did not make and was kept: $foreign"
    exit 0
fi
if [ "$(stat -c %d:%i .)" != "$(stat -c %d:%i -- "$folder")" ]; then
    echo "was exchanged while it was removed; it was kept"
    exit 0
fi
rm -f -- "$owner" && rmdir -- "$folder"
