// The list of implementations of the rows' tallies, best first.
#pragma once

#include "headwise/heads/profile/rows/head_rows.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct HeadRowsCall {
  const HeadRowsProblem& problem;
  const HeadRowsArgs& args;
};

ImplementationList<HeadRowsCall> HeadRowsImplementations();

// The entries, one per file that makes them.
extern const Implementation<HeadRowsCall> kHeadRowsReference;  // reference.cc
extern const Implementation<HeadRowsCall> kHeadRowsCuda;  // cuda/head_rows.cu

}  // namespace headwise
