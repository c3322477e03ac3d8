// Results as documents that stand alone: SVG, and pages of plots and tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/compose.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/study/picture.h"

namespace headwise {

// Maps with more tokens on a side have no labels, numbers or arcs.
inline constexpr size_t kMostLabelled = 48;

// Each map with its arcs, below each other, with what its colours mean. `note`
// stands at the foot.
std::string AttentionSvg(std::span<const HeatMap> maps, std::string_view title,
                         std::string_view note);

// A map on which like heads are near, and the matrix of all pairs with like
// heads beside each other.
std::string SimilaritySvg(const HeadSimilarity& similarity,
                          std::string_view title);

// Heads that feed each other, layers from left to right: Shown(top) edges;
// queries dashed, keys solid, values dotted; wider for a higher score over the
// baseline.
std::string CompositionSvg(const Composition& composition, size_t top,
                           std::string_view title);

std::string PlotSvg(const LinePlot& plot, std::string_view description);

struct FigurePageContent {
  std::string title;
  std::string lead;  // under the title
  std::vector<Picture> pictures;
  std::vector<StudyTable> tables;
  std::vector<std::string> notes;  // paragraphs between both
  std::string command;             // which made it
};
// Without network or script, light and dark.
std::string FigurePage(const FigurePageContent& content);

// What texts about attention draw of "The cat sat on the mat": rows that heads
// might give, and small maps of positional heads. Every row sums to 1.
std::vector<HeatMap> CatSatExamples();

}  // namespace headwise
