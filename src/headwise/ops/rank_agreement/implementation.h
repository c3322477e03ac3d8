// The list of implementations of ranks and their agreement, best first.
#pragma once

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/rank_agreement/rank_agreement.h"

namespace headwise {

// One of them is given.
struct RanksCall {
  const CosineRanksArgs* cosines = nullptr;
  const RankAgreementArgs* agreement = nullptr;

  Device device() const {
    return cosines != nullptr ? cosines->ids.device : agreement->shares.device;
  }
};

ImplementationList<RanksCall> RanksImplementations();

// The entries, one per file that makes them.
extern const Implementation<RanksCall> kRanksReference;  // reference.cc
extern const Implementation<RanksCall> kRanksCuda;  // cuda/rank_agreement.cu

}  // namespace headwise
