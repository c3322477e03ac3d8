// Door: twins.h.
#include "headwise/heads/similarity/twins.h"

#include <algorithm>

#include "headwise/error.h"
#include "headwise/heads/similarity/similarity.h"

namespace headwise {
namespace {

constexpr size_t kTwinWindows = 4;

}  // namespace

std::optional<std::set<HeadRef>> FindTwins(Context& context, const Model& model,
                                           std::span<const TokenWindow> windows,
                                           const PassOptions& options) {
  const auto first = windows.first(std::min(windows.size(), kTwinWindows));
  HeadSimilarity similarity;
  try {
    similarity = CompareHeads(context, model, first, {}, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return {};
  }
  std::set<HeadRef> twins;
  for (const HeadPair& pair : similarity.twins) {
    twins.insert(similarity.heads[pair.a]);
    twins.insert(similarity.heads[pair.b]);
  }
  return twins;
}

}  // namespace headwise
