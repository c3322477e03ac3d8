// Attention as arcs: from tokens to the ones they look at.
#pragma once

#include <optional>

#include "headwise/drawing/svg.h"
#include "headwise/study/picture.h"

namespace headwise {

// Columns of a map above: the middle of column i is at left + (i + ½)·pitch.
struct EvenColumns {
  double left = 0;
  double pitch = 0;
};

// Where rows and columns are the same tokens: one line of tokens, looks back
// as arcs above it and looks ahead below, stronger ones darker; shares below a
// twentieth are left out. Otherwise two lines with the columns above. Tokens
// stand below `columns` where they fit there.
Drawing DrawArcs(const HeatMap& map,
                 const std::optional<EvenColumns>& columns = std::nullopt);

// For a map whose rows look from one of its columns (map.query): per row the
// tokens as they are read, the one that looks in a frame, arcs from it to what
// it looks at, and below each token its share and its distance.
Drawing DrawLooks(const HeatMap& map);

}  // namespace headwise
