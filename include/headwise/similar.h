// Which heads are alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"

namespace headwise {

struct TextInput;   // text_input.h
class Transformer;  // model.h

/// Two heads that look alike.
struct HeadPair {
  size_t a = 0, b = 0;  ///< a < b, indices into heads
  double bhattacharyya = 0, jsd = 0, cka = 0, ov_read = 0, ov_write = 0;
};

/// Which heads resemble which. Matrices are f64 [heads, heads], NaN where two
/// heads cannot be compared: of different kinds or masks, or (output, content)
/// of a head that gives nothing.
struct HeadSimilarity {
  std::vector<HeadRef> heads = {};
  int64_t tokens = 0;         ///< tokens of text that were run
  int64_t rows = 0;           ///< that bhattacharyya is a mean of
  int64_t sampled_rows = 0;   ///< that jsd is a mean of
  int64_t samples = 0;        ///< tokens of cka
  Tensor bhattacharyya = {};  ///< similarity of attention rows
  Tensor jsd = {};            ///< Jensen–Shannon divergence, nats, 0 to ln 2
  Tensor cka = {};            ///< similarity of outputs
  Tensor ov_read = {};   ///< directions that W_V reads: mean squared cosine
  Tensor ov_write = {};  ///< directions that W_O writes
  std::vector<int64_t> group =
      {};  ///< number of its set of alike heads, one a head
  std::vector<int64_t> order = {};     ///< heads such that like ones are near
  Tensor map = {};                     ///< f64 [heads, 2]: like heads are near
  std::vector<HeadPair> closest = {};  ///< least divergence first, at most 50
  std::vector<HeadPair> twins = {};    ///< every pair below the job's `twin`
  std::string json = {};               ///< `headwise similar --json`
};

struct SimilarityJob {
  int64_t rows = 128;       ///< queries whose divergence is computed
  int64_t samples = 256;    ///< tokens whose outputs are compared
  int64_t min_visible = 8;  ///< rows that see fewer keys are left out
  double twin = 0.05;       ///< divergence below which heads are twins
  double cut = 0.3;         ///< groups: mean Hellinger distance at most this
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("rows", self.rows, "queries sampled for the exact divergence",
          AtLeast(1));
    visit("samples", self.samples, "tokens sampled for comparing outputs",
          AtLeast(1));
    visit("min_visible", self.min_visible,
          "leave out queries that see fewer keys", AtLeast(0));
    visit("twin", self.twin, "heads with a divergence below this are twins",
          Between(0, 1));
    visit("cut", self.cut,
          "heads are grouped up to this mean distance (Hellinger)",
          Between(0, 1));
    PartialWork::VisitFields(self.partial, visit);
  }
};

/// Which heads are alike on a text.
HEADWISE_API HeadSimilarity CompareHeads(Transformer& model,
                                         const TextInput& text,
                                         const SimilarityJob& job = {});

/// Which heads are alike as an SVG document: map and matrix; what `headwise
/// similar --svg` writes.
HEADWISE_API std::string DrawSimilarity(const HeadSimilarity& found,
                                        std::string_view title);

/// Both at once.
HEADWISE_API std::string DrawSimilarity(Transformer& model,
                                        const TextInput& text,
                                        const SimilarityJob& job = {});

}  // namespace headwise
