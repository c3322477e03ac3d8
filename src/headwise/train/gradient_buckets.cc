// Door: gradient_buckets.h.
#include "headwise/train/gradient_buckets.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "headwise/model/model_parts.h"

namespace headwise {
namespace {

using Piece = GradientBucket::Piece;

// In the order of a backward.
void AddParts(const Stack& stack, std::vector<std::string>& parts) {
  if (stack.final_norm) parts.push_back(stack.prefix + "final");
  for (auto block = stack.blocks.rbegin(); block != stack.blocks.rend();
       ++block) {
    parts.push_back(block->name());
  }
  parts.push_back(stack.prefix + "embedding");
}

std::vector<std::string> PartsBackwards(const Model& model) {
  std::vector<std::string> parts;
  if (model.has_head()) parts.emplace_back("head");
  if (model.decoder() != nullptr) AddParts(*model.decoder(), parts);
  AddParts(model.stack(), parts);
  return parts;
}

// Trained parameters, part by part; those of no part (gates) come last.
std::vector<std::vector<Piece>> PiecesOf(const Model& model,
                                         const ParameterStore& store,
                                         std::span<const std::string> parts) {
  std::map<std::string, size_t> last;  // part of each parameter
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const std::string& name : ParametersOf(model, parts.subspan(i, 1))) {
      last[name] = i;
    }
  }
  std::vector<std::vector<Piece>> pieces(parts.size());
  for (const auto& [name, entry] : store.entries()) {
    if (!entry.gradient || entry.gradient.size() == 0) continue;
    const auto found = last.find(name);
    const size_t part = found == last.end() ? parts.size() - 1 : found->second;
    pieces[part].push_back(
        {entry.buffer, entry.offset, entry.offset + entry.gradient.size()});
  }
  for (std::vector<Piece>& of_part : pieces) {
    std::sort(of_part.begin(), of_part.end(), [](const auto& a, const auto& b) {
      return std::tie(a.buffer, a.begin) < std::tie(b.buffer, b.begin);
    });
  }
  return pieces;
}

// Behind the last piece, as one with it where only what aligns them, which is
// 0, lies between.
void Append(Piece piece, std::vector<Piece>& pieces) {
  if (!pieces.empty() && pieces.back().buffer == piece.buffer &&
      piece.begin >= pieces.back().end &&
      piece.begin - pieces.back().end < ParameterStore::kAlignment) {
    pieces.back().end = piece.end;
  } else {
    pieces.push_back(piece);
  }
}

}  // namespace

int64_t GradientBucket::size() const {
  int64_t size = 0;
  for (const Piece& piece : pieces) size += piece.size();
  return size;
}

GradientBuckets::GradientBuckets(const Model& model,
                                 const ParameterStore& store, int64_t size) {
  const std::vector<std::string> parts = PartsBackwards(model);
  const auto pieces = PiecesOf(model, store, parts);
  int64_t room = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (Piece piece : pieces[i]) {
      while (piece.size() > 0) {
        if (room <= 0) {
          buckets_.emplace_back();
          room = size;
        }
        Piece taken = piece;
        taken.end = std::min(piece.end, piece.begin + room);
        Append(taken, buckets_.back().pieces);
        room = size - buckets_.back().size();
        piece.begin = taken.end;
      }
    }
    // A bucket that has room takes of the next part too.
    complete_[parts[i]] = buckets_.size() - (room > 0 ? 1 : 0);
  }
  if (!parts.empty()) complete_[parts.back()] = buckets_.size();
}

size_t GradientBuckets::CompleteAfter(const std::string& part) const {
  const auto found = complete_.find(part);
  return found == complete_.end() ? 0 : found->second;
}

}  // namespace headwise
