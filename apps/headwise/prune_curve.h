// The curve of loss (and speed) against heads left, as files and as a table.
#pragma once

#include "headwise/heads/pruning/curve.h"
#include "headwise/heads/pruning/evaluate.h"
#include "prune_repair.h"

namespace headwise {

// Writes --curve's .json and .svg and prints the table (with --json, the file).
void WriteCurve(const PruneOptions& options, const PruneMaterial& material,
                Pruner& pruner, const JudgedText& judge, Context& context);

}  // namespace headwise
