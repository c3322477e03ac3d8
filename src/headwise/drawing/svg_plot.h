// Line plots as SVG; part of svg.h's work.
#pragma once

#include "headwise/drawing/svg.h"

namespace headwise {

Drawing DrawPlotSvg(const LinePlot& plot);

}  // namespace headwise
