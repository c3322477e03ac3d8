// A part of a profile as a message: what windows of a text add to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headwise/heads/profile/profile.h"

namespace headwise {

// Windows of a part: part i holds windows [64 i, 64 i + 64) of the whole text.
// Each is summed from zero, and parts in order.
inline constexpr int64_t kPartWindows = 64;

// What a profile has counted, of its examples only where they are asked for.
// Without its documents: who reads the text counts them.
enum class WithExamples : uint8_t { kNo, kYes };
std::string Packed(const Profile& profile, WithExamples examples);
// Adds it to a profile of the same heads.
void AddPacked(std::string_view message, Profile& profile);

// The next part is counted from zero, in place: observers hold on to where
// tallies are. Examples stay: a row that is not among the best so far never
// will be, and one that is told twice is kept once.
void Clear(Profile& part);

// Metrics that nothing was counted for leave.
void EraseEmpty(Profile& profile);

}  // namespace headwise
