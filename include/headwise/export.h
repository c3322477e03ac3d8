/// @file
/// HEADWISE_API marks what the shared library shows; all else is hidden.
#pragma once

#define HEADWISE_API __attribute__((visibility("default")))
