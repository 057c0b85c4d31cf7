import debias
