# SPDX-License-Identifier: Apache-2.0
# Warnings for shardmill's own targets; never exported to users.
add_library(shardmill_warnings INTERFACE)
target_compile_options(shardmill_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion $<$<NOT:$<BOOL:${SHARDMILL_FUZZ}>>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on std::string's operator+ with a character literal (GCC bug 105329).
  target_compile_options(shardmill_warnings INTERFACE -Wno-restrict)
endif()
if(SHARDMILL_SANITIZE)
  # GCC's own documentation: instrumented code gives false alarms of this kind.
  target_compile_options(shardmill_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
