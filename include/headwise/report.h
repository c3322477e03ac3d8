// Everything that is known of a model's heads, as one page and as data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/progress.h"

namespace headwise {

struct TextInput;   // text_input.h
class Transformer;  // model.h

/// A part of a report that may be left out.
enum class ReportPart : uint8_t {
  kImportance,
  kSimilarity,
  kComposition,
  kContent,
  kSamples,
};
constexpr std::array<const char*, 5> FieldWords(ReportPart) {
  return {"importance", "similarity", "composition", "content", "samples"};
}

struct ReportJob {
  /// A file to read instead of profiling.
  std::optional<std::filesystem::path> profile = {};
  /// Most tokens for what runs the model once a head; 0: all.
  int64_t rank_tokens = 2048;
  std::vector<ReportPart> skip = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("profile", self.profile, "use this profile instead of making one");
    visit("rank_tokens", self.rank_tokens,
          "most tokens for importance, similarity and path effects, which run "
          "the model once a head; 0: all",
          AtLeast(0));
    visit("skip", self.skip, "parts to leave out");
  }
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

}  // namespace headwise
