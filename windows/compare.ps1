#Requires -Version 5.1
<#
Runs the comparison of the published tables on this Windows: its own NTFS, ReFS, exFAT and FAT32, and Platter's, on one disk
and in the same report. Run it as administrator:

    powershell -ExecutionPolicy Bypass -File compare.ps1 -Platter C:\platter.exe
    powershell -ExecutionPolicy Bypass -File compare.ps1 -Platter C:\platter.exe -DiskNumber 3 -EraseDisk

Without -DiskNumber everything happens in a virtual disk (VHDX) of its own in -Where, which is removed afterwards. A whole disk
gives figures that are the disk's own; everything on it is lost. What is asked of Windows is recorded step by step, whatever
fails is recorded too, and all is packed into one zip. Platter's docs/windows.md describes it.
#>
param(
    # The program: platter.exe.
    [string]$Platter = (Join-Path $PSScriptRoot 'platter.exe'),
    # Where the virtual disk goes: a directory of the drive that is to be measured.
    [string]$Where = $env:TEMP,
    # The disk to use instead, as Get-Disk numbers it. Everything on it is lost, and -EraseDisk has to say so.
    [int]$DiskNumber = -1,
    [switch]$EraseDisk,
    # The file systems of Windows that are compared.
    [string[]]$FileSystems = @('NTFS', 'ReFS', 'exFAT', 'FAT32'),
    # The targets of Platter, on a partition of their own.
    [string[]]$Targets = @('raw', 'ntfs', 'refs', 'refs+integrity', 'exfat', 'fat32'),
    # The loads, a report each.
    [string[]]$Workloads = @('crystaldiskmark', 'iometer'),
    # The bytes of each partition for Windows. Windows makes no FAT32 of more than 32 GB.
    [uint64]$Size = 8gb,
    # The bytes of the partition for Platter, which all its targets share.
    [uint64]$OwnSize = 24gb,
    # Measured time of each case on each target, as --time takes it; empty for the load's own.
    [string]$Time = '',
    # Also let Defender pass over the volumes while they are measured.
    [switch]$ExcludeFromDefender,
    # Where the reports and the zip go.
    [string]$Out = (Join-Path (Get-Location).Path 'platter-compare')
)

Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$isAdministrator = ([Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()).IsInRole(
    [Security.Principal.WindowsBuiltInRole]::Administrator)
if (-not $isAdministrator) {
    Write-Error 'Making volumes needs the rights of an administrator.'
    exit 2
}
if (-not (Test-Path -LiteralPath $Platter -PathType Leaf)) {
    Write-Error "There is no $Platter; name the program with -Platter."
    exit 2
}
if (($DiskNumber -ge 0) -ne [bool]$EraseDisk) {
    Write-Error '-DiskNumber and -EraseDisk go together: everything on that disk is lost.'
    exit 2
}
if (Test-Path -LiteralPath $Out) {
    Write-Error "$Out is there already; name another directory with -Out."
    exit 2
}

New-Item -ItemType Directory -Path $Out | Out-Null
# Paths of .NET and of programs are not relative to the location of PowerShell.
$Out = (Resolve-Path -LiteralPath $Out).ProviderPath
$Where = (Resolve-Path -LiteralPath $Where).ProviderPath
$Platter = (Resolve-Path -LiteralPath $Platter).ProviderPath
$utf8 = New-Object Text.UTF8Encoding $false

$record = [ordered]@{
    schema = 'platter-windows-compare'
    version = 1
    started = [DateTime]::UtcNow.ToString('o')
    ended = ''
    system = [ordered]@{}
    steps = New-Object Collections.ArrayList
}

function Save-Record {
    $record.ended = [DateTime]::UtcNow.ToString('o')
    $text = ConvertTo-Json -InputObject $record -Depth 8
    [IO.File]::WriteAllText((Join-Path $Out 'record.json'), $text, $utf8)
}

# Runs one step, and records how it ended; returns whether it went well.
function Invoke-Step([string]$name, [scriptblock]$body) {
    $step = [ordered]@{ step = $name; outcome = 'fail'; reason = ''; output = ''; seconds = 0 }
    $watch = [Diagnostics.Stopwatch]::StartNew()
    try {
        $said = (& $body | Out-String -Width 400).Trim()
        $step.outcome = 'pass'
        $step.output = $said.Substring(0, [Math]::Min($said.Length, 20000))
    } catch {
        $step.reason = "$($_.Exception.Message)"
    }
    $step.seconds = [Math]::Round($watch.Elapsed.TotalSeconds, 2)
    [void]$record.steps.Add($step)
    Save-Record
    Write-Host ("{0,-28} {1,-5} {2}" -f $name, $step.outcome, ($step.reason -split "`n")[0])
    $step.outcome -eq 'pass'
}

# Runs a program; fails with what it said unless it ends with 0.
function Invoke-Tool([string]$program, [string[]]$arguments) {
    # What a program writes to standard error is no error of this script.
    $ErrorActionPreference = 'Continue'
    $said = (& $program @arguments 2>&1 | ForEach-Object { "$_" }) -join "`n"
    $code = $LASTEXITCODE
    if ($code -ne 0) { throw "$program $($arguments -join ' ') ended with ${code}: $said" }
    "> $program $($arguments -join ' ')`n$said"
}

# What decides how figures are to be read. What this Windows does not tell stays empty.
function Get-Facts {
    $version = Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
    $record.system.product = "$((Get-CimInstance Win32_OperatingSystem).Caption)"
    $record.system.build = "$([Environment]::OSVersion.Version).$($version.UBR)"
    $record.system.processor = "$((Get-CimInstance Win32_Processor | Select-Object -First 1).Name)"
    $record.system.memory = "$((Get-CimInstance Win32_ComputerSystem).TotalPhysicalMemory)"
    $record.system.power_plan = (& powercfg.exe /getactivescheme) -join ' '
    $record.system.platter = (& $Platter --version) -join ' '
    try {
        $record.system.defender_real_time = "$((Get-MpComputerStatus).RealTimeProtectionEnabled)"
    } catch {
        $record.system.defender_real_time = "unknown: $($_.Exception.Message)"
    }
    $record.system
}

$script:image = $null
$script:disk = $null

# The disk to work on: the one that was named, or a new virtual one.
function Connect-Disk {
    if ($DiskNumber -ge 0) {
        $found = Get-Disk -Number $DiskNumber
        if ($found.IsBoot -or $found.IsSystem) { throw "disk $DiskNumber is the one that Windows runs from" }
        if ($found.PartitionStyle -ne 'RAW') {
            Clear-Disk -Number $DiskNumber -RemoveData -RemoveOEM -Confirm:$false
        }
    } else {
        $bytes = $Size * [uint64]$FileSystems.Count + $OwnSize + 256mb
        $path = Join-Path $Where "platter-compare-$PID.vhdx"
        $commands = Join-Path $Out 'diskpart.txt'
        # A fixed disk has all its room from the beginning, so that nothing of it is made while it is measured.
        $text = "create vdisk file=`"$path`" maximum=$([Math]::Ceiling($bytes / 1mb)) type=fixed"
        [IO.File]::WriteAllText($commands, $text, $utf8)
        $script:image = $path
        Invoke-Tool 'diskpart.exe' @('/s', $commands)
        Mount-DiskImage -ImagePath $path -StorageType VHDX -Access ReadWrite | Out-Null
        $found = Get-DiskImage -ImagePath $path | Get-Disk
    }
    $script:disk = $found.Number
    Initialize-Disk -Number $script:disk -PartitionStyle GPT -Confirm:$false
    Get-Disk -Number $script:disk |
        Format-List -Property @('Number', 'FriendlyName', 'FirmwareVersion', 'BusType', 'Size', 'LogicalSectorSize', 'PhysicalSectorSize')
}

# A volume of Windows' own with a directory to measure in; returns the directory.
function New-OwnVolume([string]$system) {
    $partition = New-Partition -DiskNumber $script:disk -Size $Size -AssignDriveLetter
    $arguments = @{
        Partition = $partition; FileSystem = $system; NewFileSystemLabel = $system.ToUpper(); Confirm = $false; Force = $true
    }
    # The published tables are of clusters of 4 KiB. exFAT and FAT32 have those that Windows chooses.
    if ($system -eq 'NTFS' -or $system -eq 'ReFS') { $arguments.AllocationUnitSize = 4096 }
    if ($system -eq 'ReFS') { $arguments.SetIntegrityStreams = $false }
    & 'Format-Volume' @arguments | Out-Null
    $directory = "$($partition.DriveLetter):\platter"
    New-Item -ItemType Directory -Path $directory | Out-Null
    if ($ExcludeFromDefender) {
        Add-MpPreference -ExclusionPath $directory
        [void]$script:excluded.Add($directory)
    }
    $directory
}

$script:excluded = New-Object Collections.ArrayList
$script:own = $null
$script:directories = New-Object Collections.ArrayList

try {
    [void](Invoke-Step 'facts' { Get-Facts })
    $isThere = Invoke-Step 'disk' { Connect-Disk }
    if ($isThere) {
        # Platter's partition comes first: it stays without a file system, and Platter opens it as a disk.
        [void](Invoke-Step 'partition for Platter' {
            $script:own = New-Partition -DiskNumber $script:disk -Size $OwnSize -AssignDriveLetter
            $script:own | Format-List -Property @('PartitionNumber', 'DriveLetter', 'Offset', 'Size')
        })
        foreach ($system in $FileSystems) {
            [void](Invoke-Step "format $system" {
                $directory = New-OwnVolume $system
                [void]$script:directories.Add("dir:$directory")
                # ReFS is measured as it is and with integrity, which Platter switches on for its file and reads back.
                if ($system -eq 'ReFS') { [void]$script:directories.Add("dir:$directory+integrity") }
                Get-Volume -DriveLetter $directory[0] | Format-List -Property @('FileSystem', 'AllocationUnitSize', 'Size', 'SizeRemaining')
            })
        }
        foreach ($workload in $Workloads) {
            [void](Invoke-Step "compare $workload" {
                $all = @($Targets)
                if ($null -eq $script:own) { $all = @() }
                $all += @($script:directories)
                if ($all.Count -eq 0) { throw 'there is nothing to compare' }
                $arguments = @('compare', '--targets', ($all -join ','), '--workloads', $workload)
                $arguments += @('--out', (Join-Path $Out $workload))
                if ($null -ne $script:own) {
                    $arguments += @('--device', "\\.\$($script:own.DriveLetter):", '--force')
                }
                if ($Time -ne '') { $arguments += @('--time', $Time) }
                Invoke-Tool $Platter $arguments
            })
        }
    }
} finally {
    foreach ($directory in $script:excluded) {
        [void](Invoke-Step "Defender sees $directory" { Remove-MpPreference -ExclusionPath $directory })
    }
    if ($DiskNumber -ge 0 -and $null -ne $script:disk) {
        [void](Invoke-Step 'clear the disk' { Clear-Disk -Number $script:disk -RemoveData -RemoveOEM -Confirm:$false })
    }
    if ($null -ne $script:image -and (Test-Path -LiteralPath $script:image)) {
        [void](Invoke-Step 'remove the virtual disk' {
            Dismount-DiskImage -ImagePath $script:image | Out-Null
            Remove-Item -LiteralPath $script:image
        })
    }
    Save-Record
    $zip = "$Out.zip"
    Compress-Archive -Path $Out -DestinationPath $zip -Force
    Write-Host "Everything is in $zip."
}

$failed = @($record.steps | Where-Object { $_.outcome -ne 'pass' })
if ($failed.Count -gt 0) { exit 1 }
exit 0
