// The list of implementations of the search for sinks, best first.
#pragma once

#include "headwise/ops/head_sinks/head_sinks.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct HeadSinksCall {
  const HeadSinksArgs& args;
};

ImplementationList<HeadSinksCall> HeadSinksImplementations();

// The entries, one per file that makes them.
extern const Implementation<HeadSinksCall> kHeadSinksReference;  // reference.cc
extern const Implementation<HeadSinksCall>
    kHeadSinksCuda;  // cuda/head_sinks.cu

}  // namespace headwise
