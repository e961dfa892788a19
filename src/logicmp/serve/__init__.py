"""The playground: rules, facts and queries in a browser, and the JSON interface behind it."""
