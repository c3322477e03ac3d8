// Results as pages and pictures that stand alone: HTML and SVG text.
#pragma once

#include <cstdint>
#include <filesystem>
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

struct DrawJob {
  int64_t cells = 96;  ///< rows and columns of a map; longer texts are pooled
  std::string target = {};  ///< encoder–decoders: what the decoder reads
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// Attention of heads on a text as an SVG document, maps with their arcs; what
/// `headwise show --svg` writes. Throws Error(kInvalidArgument) for a text of
/// fewer than two tokens or for no heads.
HEADWISE_API std::string DrawAttention(Transformer& model,
                                       std::string_view text,
                                       std::span<const HeadRef> heads,
                                       const DrawJob& job = {});

/// Which heads are alike as an SVG document: map and matrix.
HEADWISE_API std::string DrawSimilarity(Transformer& model,
                                        const TextInput& text,
                                        const SimilarityJob& job = {});

/// The first `top` edges as an SVG document.
HEADWISE_API std::string DrawComposition(const Composition& composition,
                                         size_t top, std::string_view title);

}  // namespace headwise
