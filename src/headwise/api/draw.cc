// Pictures of attention, likeness and composition. Door:
// include/headwise/report.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/api/relations.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/error.h"
#include "headwise/report.h"
#include "headwise/report/attention_svg.h"
#include "headwise/report/graph_svg.h"
#include "headwise/report/similarity_svg.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/runtime/token_labels.h"

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

std::string DrawAttention(Transformer& model, std::string_view text,
                          std::span<const HeadRef> heads, const DrawJob& job) {
  RequireWhole(model, "draw");
  constexpr int64_t kMostDrawn = 512;
  if (heads.empty() || job.cells < 1 || job.cells > kMostDrawn) {
    throw Error(ErrorCode::kInvalidArgument,
                {"draw", "heads, and cells from 1 to 512",
                 heads.empty() ? "no heads" : std::to_string(job.cells), ""});
  }
  for (const HeadRef& head : heads) RequireHead(model, head);
  Transformer::State& state = model.state();
  const TokenWindow window = WholeText(model, text, job.target);
  if (window.source.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "fewer", ""});
  }
  MapOptions options;
  options.most_cells = job.cells;
  options.progress = Tell(job.on_progress);
  options.stop = job.stop;
  const auto source = TokenLabels(window.source, model.tokenizer());
  const auto target = TokenLabels(window.target, model.tokenizer());
  std::vector<HeatMap> pictures;
  for (const MappedHead& map :
       MapHeads(state.context, state.model(), window,
                {heads.begin(), heads.end()}, options)) {
    pictures.push_back(
        PictureOf(map, map.head.kind == AttentionKind::kSelf ? source : target,
                  map.head.kind == AttentionKind::kDecoder ? target : source));
  }
  return AttentionSvg(pictures, "Attention of " + model.info().name, "");
}

std::string DrawSimilarity(Transformer& model, const TextInput& text,
                           const SimilarityJob& job) {
  return SimilaritySvg(SimilarityOf(model, text, job),
                       "Like heads of " + model.info().name);
}

std::string DrawComposition(const Composition& composition, size_t top,
                            std::string_view title) {
  return CompositionSvg(composition, top, title);
}

}  // namespace headwise
