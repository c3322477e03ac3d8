// Several studies, one after the other, with a folder of what is done: a run
// that was interrupted goes on where it stopped.
#pragma once

#include <filesystem>
#include <span>

#include "engine_flags.h"
#include "headwise/base/json.h"
#include "headwise/device.h"

namespace headwise {

struct Study;  // study/study.h
struct StudyRequest;
struct StudyResult;

// One run for programs: the study's JSON with "machine" and "date".
Json StudyRecord(const Study& study, const StudyResult& result, Device device);

// Runs what `folder` holds no result of as the study is now (its hash), as full
// and with those seeds; keeps each as NAME.json; then prints one table with the
// words counted, or as JSON. Studies that need the CPU run there. Returns the
// exit code: a law that does not hold, or a study that fails, is a failure.
int RunStudies(std::span<const Study* const> studies, const EngineFlags& engine,
               const StudyRequest& request, const std::filesystem::path& folder,
               bool json);

}  // namespace headwise
