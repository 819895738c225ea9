# Loads a formula of Homebrew with the words of its language that it uses, runs `install` and `test` with commands that are
# only recorded, and checks what was said. Homebrew's own audit is not there outside of Homebrew. Its rules for the
# description and the class are those of docs.brew.sh/Formula-Cookbook.

class Recorded
  attr_reader :facts, :commands

  def initialize
    @facts = {}
    @commands = []
  end
end

RECORDED = Recorded.new

class Place
  def initialize(path)
    @path = path
  end

  def /(name)
    Place.new("#{@path}/#{name}")
  end

  def write(text)
    RECORDED.commands << ["write", to_s, text]
  end

  def to_s
    @path
  end
  alias to_str to_s
end

class Formula
  %w[desc homepage url sha256 license].each do |word|
    define_singleton_method(word) { |value| RECORDED.facts[word] = value }
  end

  def self.depends_on(what)
    (RECORDED.facts["depends_on"] ||= []) << what
  end

  def self.on_linux(&block)
    class_eval(&block)
  end

  def self.test(&block)
    define_method(:run_test, &block)
  end

  def self.inherited(formula)
    RECORDED.facts["class"] = formula.name
    RECORDED.facts["formula"] = formula
    super
  end

  def bin = Place.new("/prefix/bin")

  def man1 = Place.new("/prefix/share/man/man1")

  def testpath = Place.new("/test")

  def std_cargo_args(path: ".") = ["--locked", "--root=/prefix", "--path=#{path}"]

  def system(*words)
    RECORDED.commands << words.map(&:to_s)
  end

  def shell_output(words)
    RECORDED.commands << words.split
    "one\n"
  end

  def assert_equal(expected, found)
    raise "#{found} is not #{expected}" unless expected == found
  end

  def generate_completions_from_executable(*words, shells:)
    RECORDED.commands << words.map(&:to_s) + shells.map(&:to_s)
  end
end

path = ARGV.fetch(0)
abort "#{path}: not Ruby" unless Kernel.system("ruby", "-wc", path, out: File::NULL)
load path
facts = RECORDED.facts
def expect(holds, what)
  abort "the formula: #{what}" unless holds
end

expect facts["class"] == "Platterfs", "the class is called as the file is"
expect facts["desc"].length < 80 && facts["desc"] !~ /\A(a|an|the)\b|\.\z/i, "a description without article and full stop"
%w[homepage url].each { |word| expect facts[word].start_with?("https://"), "#{word} is an address" }
expect facts["url"].end_with?(".tar.gz"), "the sources are an archive"
expect facts["sha256"].match?(/\A[0-9a-f]{64}\z/), "a sum"
expect facts["license"] == { any_of: ["MIT", "Apache-2.0"] }, "the licences"
expect facts["depends_on"].include?({ "rust" => :build }), "Rust builds it"
formula = facts["formula"].new
formula.install
expect RECORDED.commands[0].first(2) == ["cargo", "install"], "cargo installs it"
expect RECORDED.commands[0].include?("--path=crates/platter"), "of the crate that has the program"
RECORDED.commands.clear
formula.run_test
commands = RECORDED.commands.map { |words| words[1] }
%w[mkfs cp cat check].each { |word| expect commands.include?(word), "the test does #{word}" }
