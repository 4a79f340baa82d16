# SPDX-License-Identifier: Apache-2.0
# Warnings for shardmill's own targets; never exported to users.
add_library(shardmill_warnings INTERFACE)
target_compile_options(shardmill_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Werror)
