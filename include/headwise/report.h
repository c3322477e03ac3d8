// Results as pages and pictures that stand alone: HTML and SVG text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/model.h"
#include "headwise/observation.h"

namespace headwise {

struct ReportJob {
  std::string profile = {};  ///< a file to read instead of profiling; "": none
  /// Most tokens for what runs the model once a head; 0: all.
  int64_t rank_tokens = 2048;
  /// Parts to leave out: importance, similarity, composition, content, samples.
  std::vector<std::string> skip = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// Everything that is known of a model's heads.
struct Report {
  std::string html = {};  ///< one page that needs no network
  std::string json = {};  ///< headwise.report/1 (docs/report.schema.json)
  /// Writes the page, whole or not at all.
  HEADWISE_API void Save(const std::filesystem::path& path) const;
};

/// Runs every analysis that the model allows. The text is files, which are read
/// more than once. Throws Error: kInvalidArgument for neither files nor a
/// profile, for a profile of another model, an unknown part to skip, or a model
/// under an edit or a hook; kCancelled when stopped.
HEADWISE_API Report MakeReport(Transformer& model, const TextInput& text,
                               const ReportJob& job = {});

/// Its sentences and the first role of every head, for a terminal of so many
/// columns, with ANSI colours or without.
HEADWISE_API std::string SummaryText(const Report& report, int width = 80,
                                     bool color = false);

struct ShowJob {
  int64_t cells = 96;  ///< rows and columns of a map; longer texts are pooled
  int64_t top = 5;     ///< keys of each query
  /// Queries whose keys are wanted, at most; evenly spread over the text.
  int64_t queries = 24;
  std::optional<int64_t> query = {};  ///< this one alone
  std::string target = {};  ///< encoder–decoders: what the decoder reads
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// Where heads look on a text, as `headwise show` gives it.
struct ShownAttention {
  std::vector<std::string> tokens = {};  ///< as written beside pictures
  std::vector<std::string> target_tokens = {};
  std::vector<MappedHead> heads = {};  ///< in the order asked for

  /// Of one of them.
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
  std::string target = {};  ///< encoder–decoders: what the decoder reads
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// Both at once.
HEADWISE_API std::string DrawAttention(Transformer& model,
                                       std::string_view text,
                                       std::span<const HeadRef> heads,
                                       const DrawJob& job = {});

/// Which heads are alike as an SVG document: map and matrix; what `headwise
/// similar --svg` writes.
HEADWISE_API std::string DrawSimilarity(const HeadSimilarity& found,
                                        std::string_view title);
/// Both at once.
HEADWISE_API std::string DrawSimilarity(Transformer& model,
                                        const TextInput& text,
                                        const SimilarityJob& job = {});

/// The first `top` edges as an SVG document.
HEADWISE_API std::string DrawComposition(const Composition& composition,
                                         size_t top, std::string_view title);
/// The same for Graphviz, layers from left to right.
HEADWISE_API std::string DotText(const Composition& composition, size_t top);

}  // namespace headwise
