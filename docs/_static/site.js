// A page that was opened from a folder may not read other pages: results of a search are then titles, without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
