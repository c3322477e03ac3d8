// A head profile: what was added up for every head of a model over a corpus.
// Profiles of parts of a corpus merge to the profile of the whole, in any
// order. On disk a safetensors file with JSON metadata.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/observation.h"
#include "headwise/progress.h"

namespace headwise {

class Transformer;  // model.h
struct TextInput;   // text_input.h

struct Estimate {
  double mean = 0;  ///< Σx / Σw; NaN where nothing was counted
  /// 95 % interval of the ratio, linearised, over sequences (Student's t; of
  /// a share Wilson's, of as many cases as scatter that much); NaN for fewer
  /// than two of them.
  double low = 0;
  double high = 0;
  double count = 0;       ///< Σw: rows, words, cases
  int64_t sequences = 0;  ///< that contributed
};

/// One metric of one head, added up over sequences so that two tallies add to
/// the tally of both. Tokens of a sequence are correlated, so the interval
/// rests on sequences: each gives one weighted sum and one weight. Doubles
/// throughout; merging is addition.
struct Tally {
  double n = 0;   ///< sequences with w > 0
  double w = 0;   ///< Σ w
  double x = 0;   ///< Σ x
  double ww = 0;  ///< Σ w²
  double wx = 0;  ///< Σ w·x
  double xx = 0;  ///< Σ x²

  static constexpr int kNumbers = 6;

  /// A sequence's weighted sum and its weight. A weight of 0 adds nothing.
  void Add(double sum, double weight) {
    if (!(weight > 0)) return;
    n += 1;
    w += weight;
    x += sum;
    ww += weight * weight;
    wx += weight * sum;
    xx += sum * sum;
  }
  void Merge(const Tally& other) {
    n += other.n;
    w += other.w;
    x += other.x;
    ww += other.ww;
    wx += other.wx;
    xx += other.xx;
  }
  bool empty() const { return !(w > 0); }

  /// The range is what the ratio can be at all, [0, 1] of a share: its
  /// interval stays within it.
  HEADWISE_API Estimate
  Ratio(double least = -std::numeric_limits<double>::infinity(),
        double most = std::numeric_limits<double>::infinity()) const;

  friend bool operator==(const Tally&, const Tally&) = default;
};

/// Which metrics are gathered.
enum class MetricSet : uint8_t {
  kAll,
  /// Statistics that the operator sums anyway: entropy, largest key, distance,
  /// and the mass on the first token, the token itself and its neighbours.
  kCore,
};
constexpr std::array<const char*, 2> FieldWords(MetricSet) {
  return {"all", "core"};
}
HEADWISE_API const char* Name(MetricSet set);

/// Settings that decide which rows count; only profiles of equal ones merge.
struct ProfileSettings {
  MetricSet metrics = MetricSet::kAll;
  int64_t context = 0;      ///< tokens of a window
  int64_t min_visible = 8;  ///< rows that see fewer keys are left out
  /// Sequences of the random-repeat test, which needs no text.
  int64_t repeats = 32;
  /// Each sentence of the text is a sequence of its own.
  bool sentences = false;
  /// The token that begins windows; −1: none; nothing: an older file, which
  /// does not say.
  std::optional<int32_t> bos = {};

  friend bool operator==(const ProfileSettings&,
                         const ProfileSettings&) = default;
};

struct ProfileCounts {
  int64_t documents = 0;
  int64_t windows = 0;
  int64_t tokens = 0;
  /// The sum of the windows' keys: which text it was, in any order.
  uint64_t text_key = 0;

  friend bool operator==(const ProfileCounts&, const ProfileCounts&) = default;
};

/// One query of one head, with what it read.
struct Example {
  struct Key {
    int64_t position = 0;
    std::string token = {};
    double mass = 0;
  };

  /// "sample": a row drawn at random (the smallest hashes). "strongest": the
  /// largest mass on one key outside the sinks. "induction", "duplicate": the
  /// largest mass of that kind.
  std::string kind = {};
  double score = 0;   ///< the number that it was chosen by; 0 for samples
  uint64_t hash = 0;  ///< hash of the window and the query
  int64_t query = 0;  ///< position in its sequence
  int64_t first = 0;  ///< position of tokens[0]
  std::vector<std::string> tokens = {};  ///< around the query
  std::vector<Key> keys = {};            ///< largest mass first
};
inline constexpr size_t kExamplesPerKind = 4;
/// Orders examples by kind and rank, and drops what is past kExamplesPerKind.
HEADWISE_API void TrimExamples(std::vector<Example>& examples);

struct HEADWISE_API Profile {
  static constexpr const char* kFormat = "headwise.profile/1";

  std::string model = {};  ///< the name of its folder
  std::string model_hash =
      {};  ///< hash of names, shapes and bytes of its weights
  ProfileSettings settings = {};
  ProfileCounts counts = {};
  std::vector<HeadRef> heads = {};  ///< every head of the model
  /// By metric name, one tally a head. A metric that nobody counted is absent;
  /// one that does not apply to a head (previous, of cross-attention) is empty.
  std::map<std::string, std::vector<Tally>> metrics = {};
  /// Scores of annotated material without any head ("coreference.nearest",
  /// "syntactic.nsubj.up.a.offset.-1"), by name.
  std::map<std::string, Tally> baselines = {};
  /// Mass by signed log2 distance (observation.h), kHistogramBuckets a head;
  /// divided by its sum it is the mean over the rows of `entropy`.
  std::vector<std::vector<double>> histograms = {};
  /// Per head: tokens that were sinks besides the first and special ones, as
  /// the vocabulary writes them, and in how many windows.
  std::vector<std::map<std::string, int64_t>> sinks = {};
  std::vector<std::vector<Example>> examples = {};  ///< per head
  /// Per head: what it gives on average before the output product
  /// (`headwise profile --means`); empty: not asked for.
  std::vector<std::vector<double>> mean_outputs = {};

  Profile() = default;
  explicit Profile(std::vector<HeadRef> heads);

  /// The tallies of a metric, made where absent.
  std::vector<Tally>& Tallies(std::string_view metric);
  /// A metric of a head (an index of `heads`), or null where nothing was
  /// counted.
  const Tally* Find(std::string_view metric, size_t head) const;
  /// Its estimate; count 0 and mean NaN where nothing was counted.
  Estimate Get(std::string_view metric, size_t head) const;
  /// The index of a head, or −1.
  int64_t IndexOf(const HeadRef& head) const;

  /// Adds `other`. Throws Error(kInvalidArgument) for another model or other
  /// settings. What depends on the model alone (IsOfModel) is not added twice.
  void Merge(const Profile& other);

  /// Writes the file whole or not at all.
  void Save(const std::filesystem::path& path) const;
  /// Throws Error: kNotFound; kCorrupt for a truncated or foreign file.
  static Profile Load(const std::filesystem::path& path);

 private:
  void MergeMeans(const Profile& other);
};

/// Whether a file says that it is a profile; false where there is none.
HEADWISE_API bool IsProfile(const std::filesystem::path& path);

/// Whether a metric comes from the model alone, not from a corpus: copying,
/// retrieval and everything on random repeats.
HEADWISE_API bool IsOfModel(std::string_view metric);

/// "previous", "self", "next" for −1, 0, 1; else "offset.-2", "offset.3".
HEADWISE_API std::string OffsetMetric(int offset);
inline constexpr int kMostOffset = 8;

// ---- Making profiles.

/// Annotated material that heads are judged on besides: files or folders.
struct WordFiles {
  std::optional<std::filesystem::path> conllu = {};  ///< a treebank: syntax
  std::optional<std::filesystem::path> coref = {};   ///< coreference in CoNLL
  /// Encoder–decoders: lines `source<TAB>target`.
  std::optional<std::filesystem::path> pairs = {};
  bool any() const { return conllu || coref || pairs; }

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("conllu", self.conllu,
          "treebank in CoNLL-U, a file or a folder, for syntactic roles");
    visit("coref", self.coref, "coreference in CoNLL, a file or a folder");
    visit("pairs", self.pairs,
          "lines source<TAB>target, for translation heads of encoder–decoders: "
          "links between words are learnt from them");
  }
};

/// Settings of a profile besides its text.
struct ProfileJob {
  /// The core comes almost free with the forward pass; probes are left out.
  MetricSet metrics = MetricSet::kAll;
  int64_t min_visible = 8;  ///< rows that see fewer keys do not count
  int64_t repeats = 32;     ///< sequences of the random-repeat test; 0: none
  bool sentences = false;   ///< each sentence is a sequence of its own
  bool words = false;       ///< also position metrics between words
  /// Also Profile::mean_outputs, over the same text, which is read once more.
  bool means = false;
  WordFiles material = {};
  /// In material, a split word attends as its first piece does, not as their
  /// mean.
  bool first_piece = false;
  /// Files of detectors of your own (docs/patterns.md).
  std::vector<std::filesystem::path> patterns = {};
  PartialWork partial = {};  ///< windows that were counted
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("metrics", self.metrics,
          "metrics that are gathered; core ones (entropy, largest key, "
          "distance, first token and neighbours) come almost free with the "
          "forward pass, without sinks, examples or probes");
    visit("min_visible", self.min_visible,
          "leave out queries that see fewer keys", AtLeast(0));
    visit("repeats", self.repeats,
          "sequences of the random-repeat test; 0: none", Between(0, 10000));
    visit("sentences", self.sentences,
          "make each sentence a sequence of its own, as rare-token heads are "
          "defined");
    visit("words", self.words,
          "also position metrics between words (words.previous …); looks at "
          "every row again");
    visit("means", self.means,
          "also what every head gives on average, for evaluate and prune; "
          "reads the text a second time");
    WordFiles::VisitFields(self.material, visit);
    visit("first_piece", self.first_piece,
          "a split word attends as its first piece does, not as their mean");
    visit("patterns", self.patterns,
          "detectors of your own (docs/patterns.md)");
    PartialWork::VisitFields(self.partial, visit);
  }
};

/// Measures every head of the model on a text, and (without one) on the model
/// alone: random repeats, retrieval, copying. `headwise profile`
/// is this. Throws Error: kInvalidArgument for a text without two tokens, or a
/// model under an edit or a hook; kUnsupported on a device that does not
/// profile; kCancelled when stopped; what reading the text throws.
HEADWISE_API Profile MakeProfile(Transformer& model, const TextInput& text,
                                 const ProfileJob& job = {});

/// Warnings about a profile's results, a sentence each:
/// patterns (ProfileJob::patterns) of which the text has no case, and mentions
/// that no head could miss.
HEADWISE_API std::vector<std::string> NoticesOf(
    const Profile& profile,
    std::span<const std::filesystem::path> patterns = {});

/// The profile of all parts, of one model on different texts, in any order.
/// Throws Error(kInvalidArgument) for none, for other models or settings, and
/// for a text that is counted twice.
HEADWISE_API Profile MergeProfiles(std::span<const Profile> parts);

/// One metric of every head, in the order of Profile::heads; NaN where nothing
/// was counted. Throws Error(kNotFound) with the nearest name.
HEADWISE_API std::vector<double> MetricMeans(const Profile& profile,
                                             std::string_view metric);

/// Every metric of every head for machines, as `headwise profile --json`
/// prints it.
HEADWISE_API std::string JsonText(const Profile& profile);

}  // namespace headwise
