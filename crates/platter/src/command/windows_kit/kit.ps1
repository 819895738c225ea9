#Requires -Version 5.1
<#
Asks this Windows what it thinks of the images beside this script, and leaves verdict.json in a directory.
Run it as administrator:

    powershell -ExecutionPolicy Bypass -File kit.ps1

The images are never written to: what is to be written goes to a copy. Whatever fails is recorded, and the next step
follows. Platter's docs/windows-kit.md describes the steps and verdict.json.
#>
param(
    # Where the images and manifest.json are.
    [string]$Kit = $PSScriptRoot,
    # Where verdict.json and the packs go.
    [string]$Out = (Join-Path $PSScriptRoot 'out'),
    # Only the images with these names.
    [string[]]$Only = @(),
    # Also make volumes with this Windows, and pack their metadata.
    [switch]$Fresh,
    # Keep the copies that were written to, as NAME.written.vhd.
    [switch]$KeepWritten
)

Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

Add-Type -TypeDefinition @'
@@HELPER@@
'@

$isAdministrator = ([Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()).IsInRole(
    [Security.Principal.WindowsBuiltInRole]::Administrator)
if (-not $isAdministrator) {
    Write-Error 'Attaching images needs the rights of an administrator.'
    exit 2
}

New-Item -ItemType Directory -Force -Path $Out | Out-Null
# Paths of .NET are not relative to the location of PowerShell.
$Kit = (Resolve-Path -LiteralPath $Kit).ProviderPath
$Out = (Resolve-Path -LiteralPath $Out).ProviderPath
$utf8 = New-Object Text.UTF8Encoding $false
$manifest = [IO.File]::ReadAllText((Join-Path $Kit 'manifest.json'), $utf8) | ConvertFrom-Json

$version = Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
$verdict = [ordered]@{
    schema = 'platter-windows-verdict'
    version = 1
    kit = [ordered]@{ platter = $manifest.platter; seed = $manifest.seed }
    system = [ordered]@{
        product = "$((Get-CimInstance Win32_OperatingSystem).Caption)"
        build = "$([Environment]::OSVersion.Version).$($version.UBR)"
        powershell = "$($PSVersionTable.PSVersion)"
        started = [DateTime]::UtcNow.ToString('o')
    }
    images = New-Object Collections.ArrayList
    fresh = New-Object Collections.ArrayList
}

function Save-Verdict {
    $verdict.system.ended = [DateTime]::UtcNow.ToString('o')
    $text = ConvertTo-Json -InputObject $verdict -Depth 12
    [IO.File]::WriteAllText((Join-Path $Out 'verdict.json'), $text, $utf8)
}

# Ends a step that this Windows or this image does not allow.
function Stop-NotRun([string]$why) { throw "not run: $why" }

# Runs one step of an image, and records how it ended.
function Invoke-Step($judged, [string]$name, [scriptblock]$body) {
    $step = [ordered]@{ step = $name; outcome = 'fail'; reason = ''; output = ''; seconds = 0 }
    $watch = [Diagnostics.Stopwatch]::StartNew()
    try {
        $said = (& $body | Out-String -Width 400).Trim()
        $step.outcome = 'pass'
        $step.output = $said.Substring(0, [Math]::Min($said.Length, 20000))
    } catch {
        $why = "$($_.Exception.Message)"
        if ($why.StartsWith('not run: ')) {
            $step.outcome = 'not-run'
            $why = $why.Substring(9)
        }
        $step.reason = $why.Substring(0, [Math]::Min($why.Length, 20000))
    }
    $step.seconds = [Math]::Round($watch.Elapsed.TotalSeconds, 2)
    [void]$judged.steps.Add($step)
    Write-Host ("{0,-28} {1,-18} {2} {3}" -f $judged.name, $name, $step.outcome, ($step.reason -split "`n")[0])
}

# Runs a program of Windows; fails with what it said unless it ends with one of these codes.
function Invoke-Tool([string]$program, [string[]]$arguments, [int[]]$right = @(0)) {
    if (-not (Get-Command $program -ErrorAction SilentlyContinue)) { Stop-NotRun "this Windows has no $program" }
    # What a program writes to standard error is no error of this script.
    $ErrorActionPreference = 'Continue'
    $said = (& $program @arguments 2>&1 | ForEach-Object { "$_" }) -join "`n"
    $code = $LASTEXITCODE
    $said = $said -replace "`0", ''
    if ($right -notcontains $code) { throw "$program $($arguments -join ' ') ended with ${code}: $said" }
    "> $program $($arguments -join ' ')`n$said"
}

$script:attached = $null

# Attaches an image. Afterwards $script:root is the root of its volume, with a backslash at the end.
function Connect-Image([string]$path, [string]$access) {
    $script:attached = $null
    Mount-DiskImage -ImagePath $path -StorageType VHD -Access $access | Out-Null
    $script:attached = $path
    $script:root = $null
    for ($try = 0; $try -lt 40; $try++) {
        $disk = Get-DiskImage -ImagePath $path | Get-Disk
        if ($disk.IsOffline) { $disk | Set-Disk -IsOffline $false }
        if ($access -eq 'ReadWrite' -and $disk.IsReadOnly) { $disk | Set-Disk -IsReadOnly $false }
        $script:disk = $disk.Number
        $partition = $disk | Get-Partition -ErrorAction SilentlyContinue | Where-Object { $_.Type -ne 'Reserved' } | Select-Object -First 1
        if ($partition) {
            if (-not ("$($partition.DriveLetter)" -match '[A-Z]')) {
                $partition | Add-PartitionAccessPath -AssignDriveLetter -ErrorAction SilentlyContinue
                $partition = $partition | Get-Partition
            }
            if ("$($partition.DriveLetter)" -match '[A-Z]') {
                $script:drive = "$($partition.DriveLetter):"
                $script:root = "$($partition.DriveLetter):\"
                $script:volume = $partition | Get-Volume
                return
            }
        }
        Start-Sleep -Milliseconds 250
    }
    throw 'Windows shows no partition with a volume'
}

function Disconnect-Image {
    if (-not $script:attached) { return }
    $path = $script:attached
    $script:attached = $null
    Dismount-DiskImage -ImagePath $path | Out-Null
}

function Assert-Attached { if (-not $script:attached -or -not $script:root) { Stop-NotRun 'the image is not attached' } }

function Assert-Volume($image) {
    $found = "$($script:volume.FileSystem)"
    # Get-Volume calls FAT12 and FAT16 FAT; some versions say ReFS in capitals of their own.
    if ($found -ne $image.file_system) { throw "Windows takes the volume for '$found' where $($image.file_system) is expected" }
    $label = "$($script:volume.FileSystemLabel)"
    if ($label -ne $image.label) { throw "the label is '$label' where '$($image.label)' is expected" }
    "$found, label $label, $($script:volume.Size) bytes, $($script:volume.SizeRemaining) free"
}

function Get-Letters([uint32]$attributes) {
    $letters = ''
    if ($attributes -band 1) { $letters += 'r' }
    if ($attributes -band 2) { $letters += 'h' }
    if ($attributes -band 4) { $letters += 's' }
    if ($attributes -band 0x20) { $letters += 'a' }
    $letters
}

function Get-Optional($object, [string]$name) {
    $property = $object.PSObject.Properties[$name]
    if ($property) { $property.Value } else { $null }
}

# Reads everything, and compares it with what the manifest wants.
function Compare-Tree($image, $entries, [bool]$others) {
    Assert-Attached
    $differences = New-Object Collections.ArrayList
    $wanted = New-Object 'Collections.Generic.Dictionary[string,object]' ([StringComparer]::Ordinal)
    foreach ($entry in $entries) { $wanted[$entry.path] = $entry }
    $count = 0
    foreach ($found in [Platter.Kit]::List($script:root)) {
        $entry = $null
        if (-not $wanted.TryGetValue($found.Path, [ref]$entry)) {
            $own = $found.Path -eq 'System Volume Information' -or $found.Path -eq '$RECYCLE.BIN'
            if (-not $own -and -not $others) { [void]$differences.Add("$($found.Path): is there and not in the manifest") }
            continue
        }
        [void]$wanted.Remove($found.Path)
        if (Get-Optional $entry 'uncertain') { continue }
        $count++
        $path = $script:root + $found.Path
        try {
            $kind = 'file'
            if ($found.Attributes -band 0x10) { $kind = 'directory' }
            if ($found.Attributes -band 0x400) { $kind = 'link' }
            if ($kind -ne $entry.kind) { throw "is a $kind where a $($entry.kind) is expected" }
            if ($kind -eq 'file') {
                if ($found.Size -ne $entry.size) { throw "has $($found.Size) bytes where $($entry.size) are expected" }
                $hash = [Platter.Kit]::Hash($path)
                if ($hash -ne $entry.sha256) { throw "has the SHA-256 $hash where $($entry.sha256) is expected" }
            }
            $letters = Get-Optional $entry 'attributes'
            if ($null -ne $letters -and (Get-Letters $found.Attributes) -ne $letters) {
                throw "has the attributes '$(Get-Letters $found.Attributes)' where '$letters' are expected"
            }
            $modified = Get-Optional $entry 'modified'
            if ($modified) {
                # ConvertFrom-Json of PowerShell 7 makes times of texts that look like times.
                if ($modified -is [DateTime]) { $modified = $modified.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ss') + 'Z' }
                $time = [Platter.Kit]::Time($found.Modified, [bool]$image.local_times)
                if ($time -ne $modified) { throw "was modified $time where $modified is expected" }
            }
            $links = Get-Optional $entry 'links'
            if ($links -and [Platter.Kit]::Links($path) -ne $links) { throw "has not $links names" }
            foreach ($stream in @(Get-Optional $entry 'streams')) {
                if ($null -eq $stream) { continue }
                $hash = [Platter.Kit]::Hash($path + ':' + $stream.name)
                if ($hash -ne $stream.sha256) { throw "the stream $($stream.name) has other content" }
            }
        } catch {
            [void]$differences.Add("$($found.Path): $($_.Exception.Message)")
        }
    }
    foreach ($entry in $wanted.Values) {
        if (-not (Get-Optional $entry 'uncertain')) { [void]$differences.Add("$($entry.path): is missing") }
    }
    if ($differences.Count) { throw "$($differences.Count) differences: $(($differences | Select-Object -First 20) -join '; ')" }
    "$count entries are as the manifest has them"
}

function Test-Integrity($image) {
    Assert-Attached
    $count = 0
    foreach ($entry in $image.entries) {
        $wanted = Get-Optional $entry 'integrity'
        if ($null -eq $wanted) { continue }
        $said = Get-FileIntegrity -FileName ($script:root + $entry.path.Replace('/', '\'))
        if ([bool]$said.Enabled -ne [bool]$wanted) { throw "$($entry.path): integrity is $($said.Enabled) where $wanted is expected" }
        $count++
    }
    "$count files have the integrity of the manifest"
}

$WRITTEN = 'written by windows'

# Adds what Windows wrote to the list that goes into the verdict.
function Add-Written($judged, [string]$path, [string]$kind, [long]$size, $hash) {
    $entry = [ordered]@{ path = $path; kind = $kind; size = $size }
    if ($hash) { $entry.sha256 = $hash }
    [void]$judged.written.Add($entry)
}

# Makes, overwrites, truncates, moves and removes files in a directory of its own.
function Write-Tree($judged, [string]$directory) {
    Assert-Attached
    $base = $script:root + $directory
    [Platter.Kit]::MakeDirectory($base)
    Add-Written $judged $directory 'directory' 0 $null
    $sizes = 0, 1, 100, 700, 4096, 5000, 70000, 300000
    for ($number = 0; $number -lt 80; $number++) {
        $name = "file $number with a long name.bin"
        $size = $sizes[$number % $sizes.Count]
        $hash = [Platter.Kit]::Write("$base\$name", [uint64](1000 + $number), $size)
        if ($number % 8 -eq 3) { [Platter.Kit]::Delete("$base\$name"); continue }
        if ($number % 8 -eq 6) {
            [Platter.Kit]::Overwrite("$base\$name", [uint64](3001 + 2 * $number), 4096, 20000)
            $hash = [Platter.Kit]::Hash("$base\$name")
        }
        if ($number % 8 -eq 7) {
            $size = 123456
            [Platter.Kit]::SetLength("$base\$name", $size)
            $hash = [Platter.Kit]::Hash("$base\$name")
        }
        if ($number % 8 -eq 5) {
            [Platter.Kit]::Move("$base\$name", "$base\moved $number.bin")
            $name = "moved $number.bin"
        }
        Add-Written $judged "$directory/$name" 'file' $size $hash
    }
    # 12 MiB and a part of a sector.
    $size = 12582989
    Add-Written $judged "$directory/large.bin" 'file' $size ([Platter.Kit]::Write("$base\large.bin", [uint64]77, $size))
    "$($judged.written.Count) entries were written"
}

# The events of file systems and disks since a time.
function Get-Events([DateTime]$since) {
    $events = @()
    foreach ($log in 'System', 'Microsoft-Windows-Ntfs/Operational', 'Microsoft-Windows-ReFS/Operational', 'Microsoft-Windows-VHDMP-Operational') {
        try {
            $events += @(Get-WinEvent -FilterHashtable @{ LogName = $log; StartTime = $since; Level = 1, 2, 3 } -ErrorAction Stop |
                Where-Object { $_.ProviderName -match 'refs|ntfs|fat|disk|volmgr|partmgr|vhdmp|volsnap|chkdsk' })
        } catch {
            # A log that is not there, or that has no such events.
        }
    }
    $events | Sort-Object TimeCreated | ForEach-Object { "$($_.TimeCreated.ToString('o')) $($_.ProviderName) $($_.Id) $($_.LevelDisplayName): $($_.Message -replace '\s+', ' ')" }
}

function Test-Image($image) {
    $judged = [ordered]@{
        name = $image.name
        file_system = $image.file_system
        closed = [bool]$image.closed
        steps = New-Object Collections.ArrayList
        written = New-Object Collections.ArrayList
    }
    [void]$verdict.images.Add($judged)
    $since = Get-Date
    # Windows attaches no sparse file, and what unpacked the kit may have made it one.
    $source = Join-Path $Out "$($image.name).original.vhd"
    $copy = Join-Path $Out "$($image.name).written.vhd"
    $isReFS = $image.file_system -eq 'ReFS'
    $isScanned = $isReFS -or $image.file_system -eq 'NTFS'

    if ($image.closed) {
        Invoke-Step $judged 'attach-read-only' {
            Copy-Whole (Join-Path $Kit "$($image.name).vhd") $source
            Connect-Image $source 'ReadOnly'
            Assert-Volume $image
        }
        Invoke-Step $judged 'read-read-only' { Compare-Tree $image $image.entries $false }
        Invoke-Step $judged 'chkdsk' { Assert-Attached; Invoke-Tool 'chkdsk.exe' @($script:drive) }
        Invoke-Step $judged 'fsutil' {
            Assert-Attached
            Invoke-Tool 'fsutil.exe' @('fsinfo', 'volumeinfo', $script:root)
            Invoke-Tool 'fsutil.exe' @('volume', 'diskfree', $script:drive)
            if ($isReFS) { Invoke-Tool 'fsutil.exe' @('fsinfo', 'refsinfo', $script:drive) }
            if ($image.file_system -eq 'NTFS') { Invoke-Tool 'fsutil.exe' @('fsinfo', 'ntfsinfo', $script:drive) }
        }
        if ($isReFS) { Invoke-Step $judged 'integrity' { Test-Integrity $image } }
        try { Disconnect-Image } catch { Write-Host "$($_.Exception.Message)" }
        Remove-Item -LiteralPath $source -Force -ErrorAction SilentlyContinue
    }

    Invoke-Step $judged 'attach' {
        Copy-Whole (Join-Path $Kit "$($image.name).vhd") $copy
        Connect-Image $copy 'ReadWrite'
        Assert-Volume $image
    }
    Invoke-Step $judged 'read' { Compare-Tree $image $image.entries $false }
    if ($isScanned) {
        Invoke-Step $judged 'scan' {
            Assert-Attached
            $said = "$(Repair-Volume -DriveLetter $script:drive[0] -Scan)"
            if ($said -ne 'NoErrorsFound') { throw "Repair-Volume -Scan says $said" }
            $said
        }
    }
    if ($isReFS) {
        Invoke-Step $judged 'refsutil' {
            Assert-Attached
            Invoke-Tool 'refsutil.exe' @('triage', $script:drive, '/g')
            Invoke-Tool 'refsutil.exe' @('leak', $script:drive, '/d')
            Invoke-Tool 'refsutil.exe' @('salvage', '-D', $script:drive, $Out)
        }
    }
    Invoke-Step $judged 'write' { Write-Tree $judged $WRITTEN }
    if ($isReFS) {
        Invoke-Step $judged 'clone' {
            Assert-Attached
            $from = $script:root + $WRITTEN + '\cloned from.bin'
            $to = $script:root + $WRITTEN + '\clone.bin'
            # Whole clusters of either size: a clone is of whole clusters.
            $size = 1048576
            $hash = [Platter.Kit]::Write($from, [uint64]501, $size)
            [Platter.Kit]::Clone($from, $to)
            if ([Platter.Kit]::Hash($to) -ne $hash) { throw 'the clone has other content' }
            [Platter.Kit]::Overwrite($from, [uint64]503, 131072, 65536)
            if ([Platter.Kit]::Hash($to) -ne $hash) { throw 'the clone changed with its original' }
            Add-Written $judged "$WRITTEN/clone.bin" 'file' $size $hash
            Add-Written $judged "$WRITTEN/cloned from.bin" 'file' $size ([Platter.Kit]::Hash($from))
            'a clone kept its content when its original was overwritten'
        }
        Invoke-Step $judged 'snapshot' {
            Assert-Attached
            $path = $script:root + $WRITTEN + '\with a snapshot.bin'
            $size = 524288
            [void][Platter.Kit]::Write($path, [uint64]601, $size)
            Invoke-Tool 'refsutil.exe' @('streamsnapshot', '/c', 'first', $path)
            [Platter.Kit]::Overwrite($path, [uint64]603, 65536, 65536)
            Add-Written $judged "$WRITTEN/with a snapshot.bin" 'file' $size ([Platter.Kit]::Hash($path))
            Invoke-Tool 'refsutil.exe' @('streamsnapshot', '/l', '*', $path)
        }
    }
    Invoke-Step $judged 'detach' { Assert-Attached; Disconnect-Image; 'detached' }
    Invoke-Step $judged 'read-again' {
        Connect-Image $copy 'ReadWrite'
        # What is compared is what comes from the disk: the image was detached.
        $written = @($judged.written | ForEach-Object { [pscustomobject]$_ })
        Compare-Tree $image (@($image.entries) + $written) $false
        if ($isScanned) {
            $said = "$(Repair-Volume -DriveLetter $script:drive[0] -Scan)"
            if ($said -ne 'NoErrorsFound') { throw "Repair-Volume -Scan says $said after Windows wrote" }
        }
    }
    try { Disconnect-Image } catch { Write-Host "$($_.Exception.Message)" }
    Invoke-Step $judged 'pack' {
        $pack = Join-Path $Out "$($image.name).pack"
        Remove-Item -LiteralPath $pack -Force -ErrorAction SilentlyContinue
        [Platter.Kit]::Pack($copy, [long]$image.disk, $pack)
        "$((Get-Item -LiteralPath $pack).Length) bytes"
    }
    Invoke-Step $judged 'events' {
        # The log is written a moment later than what it tells of.
        Start-Sleep -Seconds 1
        $events = @(Get-Events $since)
        if ($events.Count) { throw "$($events.Count) warnings or errors: $(($events | Select-Object -First 10) -join '; ')" }
        'no warning or error of a file system or disk'
    }
    if (-not $KeepWritten) { Remove-Item -LiteralPath $copy -Force -ErrorAction SilentlyContinue }
    Save-Verdict
}

# Copies a file whole: the copy is not sparse and not compressed.
function Copy-Whole([string]$from, [string]$to) {
    Remove-Item -LiteralPath $to -Force -ErrorAction SilentlyContinue
    $read = [IO.File]::OpenRead($from)
    try {
        $write = New-Object IO.FileStream $to, 'CreateNew'
        try { $read.CopyTo($write, 1048576) } finally { $write.Dispose() }
    } finally { $read.Dispose() }
    Invoke-Tool 'compact.exe' @('/u', '/q', $to) @(0, 1) | Out-Null
}

# The volumes that this Windows is asked to make: name, file system, cluster size, and further options of format.
$FRESH = @(
    @('fat', 'FAT', 4096, @()), @('fat32', 'FAT32', 4096, @()), @('exfat', 'exFAT', 4096, @()), @('exfat-128k', 'exFAT', 131072, @()),
    @('ntfs', 'NTFS', 4096, @()), @('ntfs-512', 'NTFS', 512, @()), @('ntfs-64k', 'NTFS', 65536, @()), @('ntfs-2m', 'NTFS', 2097152, @()),
    @('ntfs-large-records', 'NTFS', 4096, @('/L')), @('ntfs-compressed', 'NTFS', 4096, @('/C')),
    @('refs', 'ReFS', 4096, @('/I:disable')), @('refs-integrity', 'ReFS', 4096, @('/I:enable')),
    @('refs-64k', 'ReFS', 65536, @('/I:disable')), @('refs-64k-integrity', 'ReFS', 65536, @('/I:enable')),
    @('refs-sha256', 'ReFS', 4096, @('/I:enable', '/SHA256Checksums:enable'))
)

function New-Fresh($one) {
    $name, $fileSystem, $cluster, $more = $one
    $judged = [ordered]@{
        name = "fresh-$name"; file_system = $fileSystem; closed = $true
        steps = New-Object Collections.ArrayList; written = New-Object Collections.ArrayList
    }
    [void]$verdict.fresh.Add($judged)
    $path = Join-Path $Out "fresh-$name.vhd"
    # FAT16 holds at most 2 GiB with clusters of 32 KiB; ReFS needs more than some versions of Windows say.
    $megabytes = if ($fileSystem -eq 'FAT') { 252 } elseif ($fileSystem -eq 'ReFS') { 4032 } else { 1008 }
    $bytes = [long]$megabytes * 1048576
    Invoke-Step $judged 'format' {
        Remove-Item -LiteralPath $path -Force -ErrorAction SilentlyContinue
        $commands = Join-Path $Out 'diskpart.txt'
        [IO.File]::WriteAllText($commands, "create vdisk file=`"$path`" maximum=$megabytes type=fixed`r`nattach vdisk`r`n")
        Invoke-Tool 'diskpart.exe' @('/s', $commands)
        $script:attached = $path
        $disk = Get-DiskImage -ImagePath $path | Get-Disk
        $disk | Initialize-Disk -PartitionStyle $(if ($fileSystem -like '*FAT*') { 'MBR' } else { 'GPT' })
        $partition = $disk | New-Partition -UseMaximumSize -AssignDriveLetter
        $script:disk = $disk.Number
        $script:drive = "$($partition.DriveLetter):"
        $script:root = "$($partition.DriveLetter):\"
        Invoke-Tool 'format.com' (@($script:drive, "/FS:$fileSystem", "/A:$cluster", '/V:FRESH', '/Q', '/Y') + $more)
        if ($fileSystem -eq 'ReFS') { Invoke-Tool 'fsutil.exe' @('fsinfo', 'refsinfo', $script:drive) }
        if ($fileSystem -eq 'NTFS') { Invoke-Tool 'fsutil.exe' @('fsinfo', 'ntfsinfo', $script:drive) }
    }
    Invoke-Step $judged 'write' { Write-Tree $judged 'first' }
    Invoke-Step $judged 'pack-live' {
        Assert-Attached
        # While another process writes, the disk is read as it is at that moment: its log is live.
        $writer = Start-Job -ArgumentList $script:root -ScriptBlock {
            param($root)
            New-Item -ItemType Directory -Path ($root + 'live') | Out-Null
            for ($number = 0; $number -lt 100000; $number++) {
                [IO.File]::WriteAllText("${root}live\$number.txt", 'x' * ($number % 3000))
                if ($number % 3 -eq 2) { [IO.File]::Move("${root}live\$number.txt", "${root}live\moved $number.txt") }
                if ($number % 5 -eq 4) { [IO.File]::Delete("${root}live\$($number - 4).txt") }
            }
        }
        try {
            Start-Sleep -Seconds 3
            [Platter.Kit]::Pack("\\.\PhysicalDrive$($script:disk)", $bytes, (New-Pack "fresh-$name.live.pack"))
        } finally {
            Stop-Job $writer
            Remove-Job $writer -Force
        }
    }
    Invoke-Step $judged 'detach' { Assert-Attached; Disconnect-Image; 'detached' }
    try { Disconnect-Image } catch { Write-Host "$($_.Exception.Message)" }
    Invoke-Step $judged 'pack' {
        [Platter.Kit]::Pack($path, $bytes, (New-Pack "fresh-$name.pack"))
    }
    Remove-Item -LiteralPath $path -Force -ErrorAction SilentlyContinue
    Save-Verdict
}

function New-Pack([string]$name) {
    $pack = Join-Path $Out $name
    Remove-Item -LiteralPath $pack -Force -ErrorAction SilentlyContinue
    $pack
}

Copy-Item -LiteralPath (Join-Path $Kit 'manifest.json') -Destination $Out -Force
foreach ($image in $manifest.images) {
    if ($Only.Count -and $Only -notcontains $image.name) { continue }
    try { Test-Image $image } catch { Write-Host "$($image.name): $($_.Exception.Message)" }
    try { Disconnect-Image } catch { Write-Host "$($image.name): $($_.Exception.Message)" }
}
if ($Fresh) {
    foreach ($one in $FRESH) {
        try { New-Fresh $one } catch { Write-Host "$($one[0]): $($_.Exception.Message)" }
        try { Disconnect-Image } catch { Write-Host "$($one[0]): $($_.Exception.Message)" }
    }
}
Save-Verdict
Write-Host "$(Join-Path $Out 'verdict.json'): now, where Platter is: platter windows-verdict verdict.json out"
