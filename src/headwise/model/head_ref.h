// Naming heads: "5.1" is head 1 of layer 5, both from 0. In encoder–decoders
// "decoder:5.1" and "cross:5.1" are the decoder's; without a word before it,
// the encoder's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/head_ref.h"
#include "headwise/model/model.h"

namespace headwise {

// "5.1,6.0". Throws Error(kInvalidArgument) with the valid range for a head
// that the model does not have, and as RequireEachOnce does.
std::vector<HeadRef> ParseHeads(std::string_view text, const Model& model);

// A head that is named twice would be counted twice: throws
// Error(kInvalidArgument) naming it. where: for the message.
void RequireEachOnce(std::span<const HeadRef> heads, const std::string& where);

// The attention layers of one kind, or none.
std::vector<const AttentionLayer*> AttentionLayers(const Model& model,
                                                   AttentionKind kind);

// Every head: self, then decoder, then cross, by layer and head.
std::vector<HeadRef> AllHeads(const Model& model);

// Whether layers share their weights, so that a head is one head with several
// uses, of which each is a HeadRef.
bool SharesHeads(const ModelConfig& config);
// A head's uses, ascending; one where layers have weights of their own.
std::vector<HeadRef> UsesOf(const ModelConfig& config, const HeadRef& head);
// The heads with all of their uses, sorted.
std::vector<HeadRef> WithAllUses(const ModelConfig& config,
                                 std::span<const HeadRef> heads);

}  // namespace headwise
