// Where chosen heads look on a text, as data and as pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/attention.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/progress.h"

namespace headwise {

struct TextInput;   // text_input.h
class Transformer;  // model.h

/// Where a head looks on one text, pooled where that is long.
struct MappedHead {
  HeadRef head = {};
  int64_t queries = 0;  ///< tokens
  int64_t keys = 0;
  /// Shares [rows, columns]; each the largest of the queries and keys that fall
  /// into it. rows = queries and columns = keys where they fit: the map itself.
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values = {};
  /// Some queries and the keys they look at most, largest first; −1 past the
  /// visible.
  int64_t top = 0;
  std::vector<int64_t> top_queries = {};
  std::vector<int32_t> top_keys = {};  ///< [top_queries, top]
  std::vector<float> top_shares = {};
  /// [keys]: the row of the one query that was asked for, else the mean share
  /// that each key gets of the queries that see it.
  std::vector<float> strip = {};

  AttentionMask mask = {};  ///< keys that the queries see

  bool pooled() const { return rows < queries || columns < keys; }
  /// Whether a query of the row sees a key of the column.
  HEADWISE_API bool Sees(int64_t row, int64_t column) const;
};

struct ShowJob {
  int64_t cells = 96;  ///< rows and columns of a map; longer texts are pooled
  int64_t top = 5;     ///< keys of each query
  /// Queries whose keys are wanted, at most; evenly spread over the text.
  int64_t queries = 24;
  std::optional<int64_t> query = {};  ///< this one alone
  std::optional<std::string> target =
      {};  ///< encoder–decoders: what the decoder reads
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("cells", self.cells,
          "rows and columns of the map; longer texts are pooled",
          Between(1, 512));
    visit("top", self.top, "keys to name for each query", AtLeast(1));
    visit("queries", self.queries, "queries to list", AtLeast(1));
    visit("query", self.query, "only what this token looks at, counted from 0",
          AtLeast(0));
    visit("target", self.target,
          "encoder–decoders: what the decoder reads, if the text does not hold "
          "source<TAB>target");
  }
};

/// Where heads look on a text, as `headwise show` gives it.
struct ShownAttention {
  std::vector<std::string> tokens = {};  ///< as written beside pictures
  std::vector<std::string> target_tokens = {};
  std::vector<MappedHead> heads = {};  ///< in the order asked for

  /// Text of one token.
  HEADWISE_API const std::vector<std::string>& Queries(
      const MappedHead& map) const;
  HEADWISE_API const std::vector<std::string>& Keys(
      const MappedHead& map) const;
};

/// The text's first document, of which the first `context` tokens are run; 0:
/// all that the model has positions for, 8192 at most. Throws Error:
/// kInvalidArgument for fewer than two tokens, for no heads, a query that the
/// text does not have, or a model under an edit or a hook; kOutOfMemory before
/// a run that has no room; kCancelled when stopped.
HEADWISE_API ShownAttention ShowAttention(Transformer& model,
                                          const TextInput& text,
                                          std::span<const HeadRef> heads,
                                          const ShowJob& job = {});

/// As an SVG document, maps with their arcs; what `headwise show --svg` writes.
HEADWISE_API std::string DrawAttention(const ShownAttention& shown,
                                       std::string_view title);

struct DrawJob {
  int64_t cells = 96;  ///< rows and columns of a map; longer texts are pooled
  std::optional<std::string> target =
      {};  ///< encoder–decoders: what the decoder reads
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("cells", self.cells,
          "rows and columns of the map; longer texts are pooled",
          Between(1, 512));
    visit("target", self.target, "encoder–decoders: what the decoder reads");
  }
};

/// Both at once.
HEADWISE_API std::string DrawAttention(Transformer& model,
                                       std::string_view text,
                                       std::span<const HeadRef> heads,
                                       const DrawJob& job = {});

}  // namespace headwise
