"""Lua scripts, one transition each; `_name.lua` are the pieces they share."""
