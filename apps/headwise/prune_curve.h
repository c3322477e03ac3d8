// The curve of loss (and speed) against heads left, as files and as a table.
#pragma once

#include "headwise/model.h"
#include "headwise/prune.h"
#include "prune_options.h"

namespace headwise {

// Writes --curve's .json, .svg and .html and prints the table (with --json, the
// file).
void WriteCurve(const PruneOptions& options, const Transformer& model,
                const PruningCurve& curve);

}  // namespace headwise
