// Pictures of attention, likeness and composition. Door:
// include/headwise/report.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/api/state.h"
#include "headwise/compose.h"
#include "headwise/drawing/pictures.h"
#include "headwise/head_ref.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/model.h"
#include "headwise/show.h"
#include "headwise/similar.h"
#include "headwise/text_input.h"

namespace headwise {
namespace {

// Labels of map rows: tokens, or the first position of each pooled row.
std::vector<std::string> CellLabels(const std::vector<std::string>& tokens,
                                    int64_t cells) {
  const auto size = std::ssize(tokens);
  if (cells == size) return tokens;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < cells; ++i) {
    labels.push_back(std::to_string(i * size / cells));
  }
  return labels;
}

HeatMap PictureOf(const MappedHead& map,
                  const std::vector<std::string>& queries,
                  const std::vector<std::string>& keys) {
  // Smaller shares are drawn as nothing: no rows of .00.
  constexpr float kLeastShare = 0.005F;
  HeatMap picture;
  picture.title = "Head " + ToString(map.head);
  if (map.pooled()) {
    picture.title += fmt::format(" · {} × {} tokens, largest of each cell",
                                 map.queries, map.keys);
  }
  picture.rows = CellLabels(queries, map.rows);
  picture.columns = CellLabels(keys, map.columns);
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      const float share = map.values[r * map.columns + c];
      picture.values.push_back(!map.Sees(r, c)
                                   ? std::numeric_limits<double>::quiet_NaN()
                               : share < kLeastShare ? 0
                                                     : share);
    }
  }
  return picture;
}

}  // namespace

std::string DrawAttention(const ShownAttention& shown, std::string_view title) {
  std::vector<HeatMap> pictures;
  for (const MappedHead& map : shown.heads) {
    pictures.push_back(PictureOf(map, shown.Queries(map), shown.Keys(map)));
  }
  return AttentionSvg(pictures, title, "");
}

std::string DrawAttention(Transformer& model, std::string_view text,
                          std::span<const HeadRef> heads, const DrawJob& job) {
  ShowJob show;
  show.cells = job.cells;
  show.target = job.target;
  show.on_progress = job.on_progress;
  show.stop = job.stop;
  return DrawAttention(
      ShowAttention(model, TextInput::Of(std::string(text)), heads, show),
      "Attention of " + model.info().name);
}

std::string DrawSimilarity(const HeadSimilarity& found,
                           std::string_view title) {
  return SimilaritySvg(found, title);
}

std::string DrawSimilarity(Transformer& model, const TextInput& text,
                           const SimilarityJob& job) {
  const ModelUse use(model);
  return SimilaritySvg(CompareHeads(model, text, job),
                       "Like heads of " + model.info().name);
}

std::string DrawComposition(const Composition& composition, size_t top,
                            std::string_view title) {
  return CompositionSvg(composition, top, title);
}

std::string DotText(const Composition& composition, size_t top) {
  return ToDot(composition, top);
}

}  // namespace headwise
