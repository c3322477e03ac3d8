// A page for every head of a model: where it is strongest on a corpus, a sample
// of everything else, what is known of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/progress.h"

namespace headwise {

struct TextInput;   // text_input.h
class Transformer;  // model.h

/// The six metrics of HeadVis, over every row of the text: first, special and
/// last tokens too. docs/atlas.md has their definitions.
enum class HeadVisMetric : uint8_t {
  kSelfAttention,     ///< mean A[q, q]
  kPreviousToken,     ///< mean A[q, q − 1] over q > 0
  kPatternEntropy,    ///< mean −Σ A ln A, nats
  kDistance,          ///< mean Σ A·|q − k|, tokens
  kDistanceVariance,  ///< of |q − k|, weighted by A, over all rows together
  kInduction,         ///< mean over queries whose token came before of the
                      ///< mass on what followed it
};
inline constexpr size_t kHeadVisMetrics = 6;
constexpr std::array<const char*, kHeadVisMetrics> FieldWords(HeadVisMetric) {
  return {"self_attention_score", "prev_token_score",     "pattern_entropy",
          "qk_distance",          "qk_distance_variance", "induction_score"};
}
/// What it is, in one sentence.
HEADWISE_API const char* Describe(HeadVisMetric metric);

/// A part of an atlas that may be left out.
enum class AtlasPart : uint8_t {
  kImportance,
  kContent,
};
constexpr std::array<const char*, 2> FieldWords(AtlasPart) {
  return {"importance", "content"};
}

struct AtlasJob {
  /// A file to read instead of profiling.
  std::optional<std::filesystem::path> profile = {};
  int64_t strongest = 10;  ///< sequences of a head's highest interval
  int64_t samples = 2;     ///< of each other interval, at most
  int64_t intervals = 10;  ///< of a sequence's largest attention
  int64_t drawn = 512;     ///< sequences drawn at random, for all heads
  int64_t keys = 8;        ///< of a query, kept of a map
  double least = 0.005;    ///< attention that is kept of a map
  /// Most tokens for roles and for the metrics with intervals; 0: all.
  int64_t profile_tokens = 131072;
  /// Most tokens for importance, which runs the model once a head; 0: all.
  int64_t rank_tokens = 2048;
  std::vector<AtlasPart> skip = {};
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("profile", self.profile, "use this profile instead of making one");
    visit("strongest", self.strongest,
          "sequences that are kept where a head is strongest",
          Between(1, 1000));
    visit("samples", self.samples,
          "sequences that are kept of each lower interval, at most",
          Between(0, 1000));
    visit("intervals", self.intervals,
          "intervals of a head's largest attention in a sequence, of equally "
          "many sequences each",
          Between(1, 100));
    visit("drawn", self.drawn,
          "sequences drawn at random, which give the intervals and their "
          "samples",
          Between(1, 100000));
    visit("keys", self.keys, "keys of a query that are kept of a map, at most",
          Between(1, 1024));
    visit("least", self.least, "attention below this is not kept of a map",
          Between(0, 1));
    visit("profile_tokens", self.profile_tokens,
          "most tokens for roles and for the metrics with intervals, the first "
          "of the text; 0: all",
          AtLeast(0));
    visit("rank_tokens", self.rank_tokens,
          "most tokens for importance, which runs the model once a head; 0: "
          "all",
          AtLeast(0));
    visit("skip", self.skip, "parts to leave out");
    PartialWork::VisitFields(self.partial, visit);
  }
};

struct AtlasHead {
  HeadRef head = {};
  /// By HeadVisMetric; NaN where no row counts.
  std::array<double, kHeadVisMetrics> metrics = {};
  /// Mean over sequences of its largest attention, as HeadVis counts it:
  /// without the first query and the first key.
  double mean_strength = 0;
  std::string role = {};  ///< the first of its roles, or "no role"
};

struct Atlas {
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t kept = 0;  ///< different sequences whose maps are in the files
  std::vector<AtlasHead> heads = {};
};

/// Writes a folder: index.html, which opens from disk and shows every head
/// (index.html#5.1), and data/, which is the data folder of HeadVis' viewer.
/// Files of an earlier atlas are written over. Throws Error: kInvalidArgument
/// for anything but texts or files, a profile of another model, or a model
/// under an edit or a hook; kUnsupported for encoder–decoders; kCancelled when
/// stopped; kIo.
HEADWISE_API Atlas MakeAtlas(Transformer& model, const TextInput& text,
                             const std::filesystem::path& folder,
                             const AtlasJob& job = {});

/// For machines, as `headwise atlas --json` prints it.
HEADWISE_API std::string JsonText(const Atlas& atlas);

}  // namespace headwise
