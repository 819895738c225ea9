//! The scripts with which shells complete: each hands the words before the cursor to `platter complete`.

/// The shells for which there is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Script {
    /// bash 4 and later
    Bash,
    /// elvish
    Elvish,
    /// fish 3 and later
    Fish,
    /// PowerShell 5 and later
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
    /// zsh 5 and later
    Zsh,
}

impl Script {
    /// The script, which defines the completion of `platter`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Script::Bash => BASH,
            Script::Elvish => ELVISH,
            Script::Fish => FISH,
            Script::PowerShell => POWERSHELL,
            Script::Zsh => ZSH,
        }
    }
}

/// bash splits words at the characters of `COMP_WORDBREAKS`, among them `:`, `=` and `@`, and replaces only what comes
/// behind the last of them. So the program gets the line and splits it as the shell would carry it out, and what is
/// before the last break is cut off the candidates.
const BASH: &str = r#"# Completes platter for bash: commands, options, values, and paths inside of images.
_platter() {
    local line="${COMP_LINE:0:COMP_POINT}" candidate kept=
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("${COMP_WORDS[0]}" complete bash "$COMP_WORDBREAKS" "$line" 2> /dev/null)
    if ((${#COMPREPLY[@]} == 1)); then
        kept="${COMPREPLY[0]}"
        case "$kept" in
            */ | *: | *@ | *= | *,) compopt -o nospace ;;
        esac
    fi
}
complete -F _platter platter
"#;

const ZSH: &str = r#"#compdef platter
# Completes platter for zsh: commands, options, values, and paths inside of images.
_platter() {
    local line value help
    local -a given values shown open openshown
    given=("${(@Q)words[2,CURRENT]}")
    while IFS= read -r line; do
        value="${line%%$'\t'*}"
        help="${line#*$'\t'}"
        [[ "$value" == "$line" || -z "$help" ]] && help="$value" || help="$value  -- $help"
        case "$value" in
            */ | *: | *@ | *= | *,)
                open+=("$value")
                openshown+=("$help")
                ;;
            *)
                values+=("$value")
                shown+=("$help")
                ;;
        esac
    done < <("${(Q)words[1]}" complete zsh -- "${given[@]}" 2> /dev/null)
    ((${#values[@]})) && compadd -l -d shown -a values
    ((${#open[@]})) && compadd -S '' -l -d openshown -a open
    ((${#values[@]} + ${#open[@]}))
}
if [[ "${funcstack[1]}" == _platter ]]; then
    _platter "$@"
else
    compdef _platter platter
fi
"#;

const FISH: &str = r#"# Completes platter for fish: commands, options, values, and paths inside of images.
function __platter_complete
    set -l given (commandline -opc)
    set -l program $given[1]
    set -e given[1]
    $program complete fish -- $given (commandline -ct | string unescape) 2>/dev/null
end
complete -c platter -f -a '(__platter_complete)'
"#;

const POWERSHELL: &str = r#"# Completes platter for PowerShell: commands, options, values, and paths inside of images.
Register-ArgumentCompleter -Native -CommandName platter -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $given = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        Select-Object -Skip 1 | ForEach-Object { $_.ToString().Trim('"', "'") })
    $given += if ($wordToComplete) { $wordToComplete.Trim('"', "'") } else { '""' }
    & $commandAst.CommandElements[0].ToString() complete powershell -- @given 2> $null | ForEach-Object {
        $value, $help = $_ -split "`t", 2
        if (-not $help) { $help = $value }
        $written = if ($value -match '[\s''@{}();,]') { "'" + ($value -replace "'", "''") + "'" } else { $value }
        [System.Management.Automation.CompletionResult]::new($written, $value, 'ParameterValue', $help)
    }
}
"#;

const ELVISH: &str = r#"# Completes platter for elvish: commands, options, values, and paths inside of images.
set edit:completion:arg-completer[platter] = {|@words|
    platter complete elvish -- (all $words[1..]) 2>/dev/null | each {|line|
        var value = (str:split "\t" $line | take 1)
        edit:complex-candidate $value &code-suffix=(if (re:match '[/:@=,]$' $value) { put '' } else { put ' ' })
    }
}
"#;

/// A candidate as bash has it on the command line, without what is before the last character at which bash splits
/// words. `typed` is the word as it is read from the line.
pub(crate) fn for_bash(value: &[u8], typed: &[u8], breaks: &[u8]) -> Vec<u8> {
    let kept = typed.iter().rposition(|byte| breaks.contains(byte)).map_or(0, |at| at + 1);
    let mut word = Vec::new();
    for &byte in value.get(kept..).unwrap_or_default() {
        if b" \t\n\\'\"`$&;|<>()*?[]{}!#~".contains(&byte) {
            word.push(b'\\');
        }
        word.push(byte);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_gets_what_comes_behind_its_last_break() {
        let breaks = b" \t\n\"'@><=;|&(:";
        let word = |value: &str, typed: &str| {
            String::from_utf8(for_bash(value.as_bytes(), typed.as_bytes(), breaks)).unwrap()
        };
        assert_eq!(word("disk.img:/photos/", "disk.img:/ph"), "/photos/");
        assert_eq!(word("disk.img@2", "disk.img@"), "2");
        assert_eq!(word("--as=exfat", "--as=e"), "exfat");
        assert_eq!(word("raw,ntfs", "raw,n"), "raw,ntfs");
        assert_eq!(word("d.img:/a b$(c)", "d.img:/"), r"/a\ b\$\(c\)");
        assert_eq!(word("check", ""), "check");
    }
}
